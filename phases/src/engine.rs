//! Runs a plan: each phase starts the moment all phases it comes after have ended.
//!
//! The engine knows nothing about Kubernetes; it schedules, times and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::mpsc::UnboundedSender;

use crate::events::{Event, Outcome, micros, millis};
use crate::phases::{Context, Phase, PhaseId};

/// Any error of a phase; each phase module has its own enum.
pub type PhaseError = Box<dyn std::error::Error + Send + Sync>;

/// What will be tried: a value, complete before anything runs.
#[derive(Debug, Clone)]
pub struct Plan {
    phases: Vec<Planned>,
}

#[derive(Debug, Clone)]
struct Planned {
    phase: &'static Phase,
    skip: Option<String>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    #[error("phase {phase} comes after {after}, which is not in the plan")]
    MissingDependency { phase: PhaseId, after: PhaseId },
    #[error("phases wait for each other: {0:?}")]
    Cycle(Vec<PhaseId>),
    #[error("phase {0} is listed twice")]
    Duplicate(PhaseId),
}

/// The phase that ended a run, and why.
#[derive(Debug, thiserror::Error)]
#[error("phase {phase} failed")]
pub struct PhaseFailure {
    pub phase: PhaseId,
    #[source]
    pub source: PhaseError,
}

/// Where events go, with the clock they are measured by.
#[derive(Debug, Clone)]
pub struct Events {
    sender: UnboundedSender<Event>,
    begin: Instant,
    #[cfg(feature = "faults")]
    observer: Option<fn(&Event)>,
}

impl Events {
    pub fn new(sender: UnboundedSender<Event>) -> Self {
        Self {
            sender,
            begin: Instant::now(),
            #[cfg(feature = "faults")]
            observer: None,
        }
    }

    /// Calls `observer` with each event, at the place in the run where it is sent.
    #[cfg(feature = "faults")]
    #[must_use]
    pub fn observed(self, observer: fn(&Event)) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Milliseconds since the run began.
    pub fn now_ms(&self) -> u64 {
        millis(self.begin.elapsed())
    }

    /// Microseconds since the run began.
    pub fn now_us(&self) -> u64 {
        micros(self.begin.elapsed())
    }

    /// A consumer that has gone away is no reason to stop a run.
    pub fn send(&self, event: Event) {
        #[cfg(feature = "faults")]
        if let Some(observer) = self.observer {
            observer(&event);
        }
        let _ = self.sender.send(event);
    }

    pub fn step(&self, phase: PhaseId, message: impl Into<String>) {
        self.send(Event::Step { phase, message: message.into(), at_ms: self.now_ms() });
    }
}

impl Plan {
    /// Orders `phases` so that each comes after those it needs.
    ///
    /// # Errors
    /// When a phase needs one that isn't there, or phases wait for each other.
    pub fn new(phases: &'static [Phase]) -> Result<Self, PlanError> {
        let ids: BTreeSet<_> = phases.iter().map(|p| p.id).collect();
        let mut done = BTreeSet::new();
        let mut ordered = Vec::new();
        for (index, phase) in phases.iter().enumerate() {
            if phases[..index].iter().any(|earlier| earlier.id == phase.id) {
                return Err(PlanError::Duplicate(phase.id));
            }
            if let Some(after) = phase.after.iter().find(|after| !ids.contains(after)) {
                return Err(PlanError::MissingDependency { phase: phase.id, after: *after });
            }
        }
        while ordered.len() < phases.len() {
            let ready = |p: &&Phase| !done.contains(&p.id) && p.after.iter().all(|a| done.contains(a));
            let Some(phase) = phases.iter().find(ready) else {
                return Err(PlanError::Cycle(ids.difference(&done).copied().collect()));
            };
            done.insert(phase.id);
            ordered.push(Planned { phase, skip: None });
        }
        Ok(Self { phases: ordered })
    }

    /// Leaves a phase out: what an earlier run made of it stays, and those after it still run. One that
    /// reads its [`Outputs`](crate::phases::Outputs) fails and says so: they are known only to a run.
    #[must_use]
    pub fn skipping(mut self, skipped: &[PhaseId], reason: &str) -> Self {
        for planned in self.phases.iter_mut().filter(|p| skipped.contains(&p.phase.id)) {
            planned.skip = Some(reason.to_owned());
        }
        self
    }

    pub fn phases(&self) -> impl Iterator<Item = &'static Phase> {
        self.phases.iter().map(|p| p.phase)
    }
}

tokio::task_local! {
    static PHASE: PhaseId;
}

/// The phase that the caller is part of, if it is part of one.
pub fn current_phase() -> Option<PhaseId> {
    PHASE.try_with(|phase| *phase).ok()
}

/// Runs the plan; on the first failure the phases still under way are dropped.
///
/// # Errors
/// The first phase that failed.
pub async fn run(plan: &Plan, context: &Context) -> Result<(), PhaseFailure> {
    let events = &context.events;
    events.send(Event::Plan { phases: plan.phases().map(|p| p.id).collect() });

    // A phase's future ends with `true` when it succeeded. Failures are kept aside, because a
    // shared future must be cloneable and errors are not.
    let failure = Arc::new(std::sync::Mutex::new(None));
    let mut running: BTreeMap<PhaseId, Shared<BoxFuture<'_, bool>>> = BTreeMap::new();
    for Planned { phase, skip } in &plan.phases {
        let before: Vec<_> = phase.after.iter().filter_map(|id| running.get(id).cloned()).collect();
        let failure = Arc::clone(&failure);
        let future = async move {
            if !futures_util::future::join_all(before).await.into_iter().all(|ok| ok) {
                return false;
            }
            match run_one(phase, skip.as_deref(), context).await {
                Ok(()) => true,
                Err(source) => {
                    let mut slot = failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    slot.get_or_insert(PhaseFailure { phase: phase.id, source });
                    false
                }
            }
        };
        running.insert(phase.id, future.boxed().shared());
    }

    let mut pending: futures_util::stream::FuturesUnordered<_> = running.into_values().collect();
    while let Some(ok) = futures_util::StreamExt::next(&mut pending).await {
        if !ok {
            break;
        }
    }
    drop(pending);
    let mut slot = failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    slot.take().map_or(Ok(()), Err)
}

async fn run_one(phase: &'static Phase, skip: Option<&str>, context: &Context) -> Result<(), PhaseError> {
    let events = &context.events;
    let id = phase.id;
    let begin = Instant::now();
    events.send(Event::Started { phase: id, at_ms: events.now_ms() });
    let result = match skip {
        Some(reason) => Ok(Outcome::Skipped(reason.to_owned())),
        None => PHASE.scope(id, (phase.run)(context)).await.inspect(|_| context.outputs.finished.add(id)),
    };
    let (at_ms, elapsed_ms) = (events.now_ms(), millis(begin.elapsed()));
    match result {
        Ok(outcome) => events.send(Event::Finished { phase: id, outcome, at_ms, elapsed_ms }),
        Err(error) => {
            events.send(Event::Failed { phase: id, error: error.to_string(), at_ms, elapsed_ms });
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(_: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
        async { Ok(Outcome::Done) }.boxed()
    }

    const fn phase(id: PhaseId, after: &'static [PhaseId]) -> Phase {
        Phase { id, after, summary: "", run: done }
    }

    #[test]
    fn orders_by_need() {
        static PHASES: [Phase; 3] = [
            phase(PhaseId::Etcd, &[PhaseId::Network, PhaseId::Certs]),
            phase(PhaseId::Certs, &[]),
            phase(PhaseId::Network, &[]),
        ];
        let order: Vec<_> =
            Plan::new(&PHASES).map(|p| p.phases().map(|p| p.id).collect()).unwrap_or_default();
        assert_eq!(order, [PhaseId::Certs, PhaseId::Network, PhaseId::Etcd]);
    }

    #[test]
    fn refuses_what_can_not_run() {
        static CYCLE: [Phase; 2] =
            [phase(PhaseId::Etcd, &[PhaseId::Certs]), phase(PhaseId::Certs, &[PhaseId::Etcd])];
        static MISSING: [Phase; 1] = [phase(PhaseId::Etcd, &[PhaseId::Certs])];
        static TWICE: [Phase; 2] = [phase(PhaseId::Etcd, &[]), phase(PhaseId::Etcd, &[])];
        assert!(matches!(Plan::new(&CYCLE), Err(PlanError::Cycle(ids)) if ids.len() == 2));
        assert!(matches!(Plan::new(&MISSING), Err(PlanError::MissingDependency { .. })));
        assert!(matches!(Plan::new(&TWICE), Err(PlanError::Duplicate(PhaseId::Etcd))));
    }

    /// Whether each phase stands once, behind all that it needs.
    fn is_sound(plan: &Plan, wanted: usize) -> bool {
        let mut before = BTreeSet::new();
        plan.phases()
            .all(|phase| phase.after.iter().all(|need| before.contains(need)) && before.insert(phase.id))
            && before.len() == wanted
    }

    /// A graph whose phases, in this order, need some of those before them; listed in another order.
    fn graph(order: &[PhaseId], needs: &[bool], listed: &[usize]) -> Vec<Phase> {
        let all = order.iter().enumerate().map(|(index, id)| {
            let chosen = |(other, _): &(usize, &PhaseId)| needs[(index * order.len() + other) % needs.len()];
            let after =
                order[..index].iter().enumerate().filter(chosen).map(|(_, id)| *id).collect::<Vec<_>>();
            phase(*id, after.leak())
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|phase| order.iter().position(|id| *id == phase.id).map(|index| listed[index]));
        all
    }

    mod properties {
        use proptest::prelude::*;
        use proptest::sample::subsequence;

        use super::*;

        fn any_order() -> impl Strategy<Value = Vec<PhaseId>> {
            Just(PhaseId::ALL.to_vec()).prop_shuffle()
        }

        proptest! {
            #[test]
            fn any_graph_is_ordered_by_need(
                order in any_order(),
                needs in proptest::collection::vec(any::<bool>(), 1..200),
                listed in Just((0..PhaseId::ALL.len()).collect::<Vec<_>>()).prop_shuffle(),
            ) {
                let count = order.len();
                let plan = Plan::new(graph(&order, &needs, &listed).leak());
                prop_assert!(plan.is_ok_and(|plan| is_sound(&plan, count)));
            }

            #[test]
            fn a_need_that_leads_back_is_a_cycle(
                order in any_order(), needs in proptest::collection::vec(any::<bool>(), 1..200), from in 0_usize..100,
            ) {
                let listed: Vec<_> = (0..order.len()).collect();
                let mut phases = graph(&order, &needs, &listed);
                // A chain from the first to one behind it, and back.
                let to = 1 + from % (order.len() - 1);
                for index in 1..=to {
                    phases[index].after = [phases[index].after, &[order[index - 1]]].concat().leak();
                }
                phases[0].after = vec![order[to]].leak();
                let on_it = |ids: &Vec<PhaseId>| order[..=to].iter().all(|id| ids.contains(id));
                prop_assert!(matches!(Plan::new(phases.leak()), Err(PlanError::Cycle(ids)) if on_it(&ids)));
            }

            #[test]
            fn skips_change_no_order(skips in subsequence(PhaseId::ALL.to_vec(), 0..=PhaseId::ALL.len())) {
                let whole = Plan::new(crate::phases::PHASES).ok();
                let part = whole.clone().map(|plan| plan.skipping(&skips, "asked for"));
                let (Some(whole), Some(part)) = (whole, part) else { return Err(TestCaseError::fail("no plan")) };
                prop_assert!(is_sound(&part, crate::phases::PHASES.len()));
                prop_assert!(whole.phases().map(|phase| phase.id).eq(part.phases().map(|phase| phase.id)));
                for planned in &part.phases {
                    prop_assert_eq!(planned.skip.is_some(), skips.contains(&planned.phase.id));
                }
            }
        }
    }

    #[test]
    fn hoists_own_plan_is_sound() {
        assert!(Plan::new(crate::phases::PHASES).is_ok());
    }
}

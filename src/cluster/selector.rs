//! Expressions of selectors: LabelSelectorRequirement of meta/v1 and NodeSelectorRequirement of core/v1,
//! which are alike.

use k8s_openapi::api::core::v1::NodeSelectorRequirement as Expression;

/// Whether a label, or a field, of this value meets an expression; `None` is one that isn't there.
pub(crate) fn is_met(expression: &Expression, value: Option<&str>) -> bool {
    let values = expression.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|other| other == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let numbers = || number(value).zip(number(values.first().map(String::as_str)));
    match expression.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        // Not known here: nothing is said of it.
        _ => true,
    }
}

/// As kubectl's selectors and queries of the API have it.
pub(crate) fn shown(expression: &Expression) -> String {
    let Expression { key, operator, values } = expression;
    let values = values.as_deref().unwrap_or_default().join(",");
    match operator.as_str() {
        "DoesNotExist" => format!("!{key}"),
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Gt" => format!("{key} > {values}"),
        "Lt" => format!("{key} < {values}"),
        _ => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_is_met_as_the_scheduler_has_it() {
        let met = |operator: &str, values: &[&str], value: Option<&str>| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            let expression = Expression { key: "k".into(), operator: operator.into(), values: Some(values) };
            is_met(&expression, value)
        };
        for (operator, values, value, wanted) in [
            ("In", &["a", "b"][..], Some("b"), true),
            ("In", &["a"], Some("b"), false),
            ("In", &["a"], None, false),
            ("NotIn", &["a"], Some("b"), true),
            ("NotIn", &["a"], None, true),
            ("NotIn", &["a"], Some("a"), false),
            ("Exists", &[], Some(""), true),
            ("Exists", &[], None, false),
            ("DoesNotExist", &[], None, true),
            ("DoesNotExist", &[], Some(""), false),
            ("Gt", &["3"], Some("4"), true),
            ("Gt", &["3"], Some("x"), false),
            ("Lt", &["3"], Some("2"), true),
            ("Lt", &["3"], None, false),
            ("Later", &[], None, true),
        ] {
            assert_eq!(met(operator, values, value), wanted, "{operator} {values:?} {value:?}");
        }
    }
}

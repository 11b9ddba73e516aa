use super::Step;

/// KubeVirt's tests of host devices look for these two by their ids: Intel's ICH6 and ICH9 audio
/// (qemu: intel-hda, ich9-intel-hda).
const SOUND_CARDS: &str = "8086:2668 8086:293e";

/// Takes the sound cards from their driver, so that they can be handed to virtual machines.
pub(super) fn sound_cards() -> Step {
    Step::optional(
        "bind the sound cards to vfio-pci",
        format!(
            "modprobe -i vfio-pci
for id in {SOUND_CARDS}; do
    slots=$(lspci -D -d \"$id\" | cut -d ' ' -f 1)
    [ -n \"$slots\" ] || {{ echo \"there is no device $id\" >&2; exit 1; }}
    for slot in $slots; do
        device=/sys/bus/pci/devices/$slot
        [ -d \"$device/iommu\" ] || {{ echo \"$slot: the machine has no IOMMU\" >&2; exit 1; }}
        driver=$(basename \"$(readlink \"$device/driver\" || true)\")
        [ \"$driver\" != vfio-pci ] || continue
        [ -z \"$driver\" ] || echo \"$slot\" >\"$device/driver/unbind\"
        echo vfio-pci >\"$device/driver_override\"
        echo \"$slot\" >/sys/bus/pci/drivers/vfio-pci/bind
    done
done"
        ),
    )
}

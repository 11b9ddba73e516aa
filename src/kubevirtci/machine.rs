//! The command line of a node's container: `/vm.sh` of the cluster image with its options, and the
//! arguments of qemu for devices that a node has beyond the usual.

use std::fmt::Write as _;

use super::args::RunArgs;
use super::guest::quote;

/// Size of the disk that ceph gets, in bytes: 30 GiB.
const CEPH_DISK: u64 = 30 << 30;

/// Slots and chassis of the root ports of secondary NICs on machines with several NUMA nodes: behind
/// those that vm.sh takes for itself.
const NIC_SLOT: u32 = 4;
const NIC_CHASSIS: u32 = 10;

/// The shell command that boots node `number`.
pub(super) fn command(args: &RunArgs, number: u32) -> String {
    let mut command = format!(
        "/vm.sh -n /var/run/disk/disk.qcow2 --memory {} --cpu {} --numa {}",
        args.memory, args.cpu, args.numa
    );
    if args.switches.enable_ceph {
        let _ =
            write!(command, " --block-device /var/run/disk/blockdev.qcow2 --block-device-size {CEPH_DISK}");
    }
    let disks = [
        ("--scsi-device-size", &args.scsi),
        ("--nvme-device-size", &args.nvme),
        ("--usb-device-size", &args.usb),
        ("--shared-device-size", &args.shared_block_device),
    ];
    for (option, sizes) in disks {
        for size in sizes {
            let _ = write!(command, " {option} {}", quote(size));
        }
    }
    let qemu = qemu_args(args, number);
    if !qemu.is_empty() {
        let _ = write!(command, " --qemu-args {}", quote(&qemu));
    }
    let kernel = kernel_args(args);
    if !kernel.is_empty() {
        let _ = write!(command, " --additional-kernel-args {}", quote(&kernel));
    }
    command
}

fn kernel_args(args: &RunArgs) -> String {
    let mut words = Vec::new();
    if !args.kernel_args.trim().is_empty() {
        words.push(args.kernel_args.trim().to_owned());
    }
    for (size, count) in [("2M", args.hugepages_2m), ("1G", args.hugepages_1g)] {
        if count > 0 {
            words.push(format!("hugepagesz={size} hugepages={count}"));
        }
    }
    if args.switches.enable_fips {
        words.push("fips=1".to_owned());
    }
    words.join(" ")
}

fn qemu_args(args: &RunArgs, number: u32) -> String {
    let mut words = Vec::new();
    if !args.qemu_args.trim().is_empty() {
        words.push(args.qemu_args.trim().to_owned());
    }
    words.extend((0..args.secondary_nics).flat_map(|nic| secondary_nic(args, number, nic)));
    words.extend(args.nvme.iter().enumerate().map(|(disk, _)| {
        format!(
            "-drive file=/nvme-{disk}.img,format=raw,id=NVME{disk},if=none \
             -device nvme,drive=NVME{disk},serial=nvme-{disk},bus=pcie.0"
        )
    }));
    if !args.scsi.is_empty() {
        words.push("-device virtio-scsi-pci,id=scsi0,bus=pcie.0".to_owned());
    }
    words.extend(args.scsi.iter().enumerate().map(|(disk, _)| {
        format!(
            "-drive file=/scsi-{disk}.img,if=none,id=drive{disk} \
             -device scsi-hd,drive=drive{disk},bus=scsi0.0,channel=0,scsi-id=0,lun={disk}"
        )
    }));
    for disk in 0..args.usb.len() {
        let bus = disk / 2;
        if disk % 2 == 0 {
            words.push(format!("-device qemu-xhci,id=bus{bus},bus=pcie.0"));
        }
        words.push(format!(
            "-drive if=none,id=stick{disk},format=raw,file=/usb-{disk}.img \
             -device usb-storage,bus=bus{bus}.0,drive=stick{disk}"
        ));
    }
    for disk in 0..args.shared_block_device.len() {
        let port = disk + 1;
        words.push(format!(
            "-blockdev file,filename=/shared/disk{disk}.img,node-name=shared-disk-{disk},read-only=off,cache.direct=on,cache.no-flush=off \
             -device pcie-root-port,id=pci.{port},bus=pcie.0 \
             -device virtio-blk-pci,bus=pci.{port},drive=shared-disk-{disk},id=shared-disk-{disk},share-rw=on,write-cache=on,werror=stop,rerror=stop"
        ));
    }
    words.join(" ")
}

/// A NIC on a tap of dnsmasq.sh: `stapNODE-NIC`, both from 0. With several NUMA nodes it hangs on a
/// root port of one of them.
fn secondary_nic(args: &RunArgs, number: u32, nic: u32) -> Vec<String> {
    let node = number - 1;
    let name = format!("{node}-{nic}");
    let mac = node * args.secondary_nics + nic;
    let mut words = Vec::new();
    let mut bus = "pcie.0".to_owned();
    if args.numa > 1 {
        bus = format!("secondaryrp{nic}");
        let (slot, chassis) = (NIC_SLOT + nic / args.numa, NIC_CHASSIS + nic);
        let parent = nic % args.numa;
        words.push(format!(
            "-device pcie-root-port,id={bus},slot={slot},chassis={chassis},bus=secondarypxb{parent}"
        ));
    }
    words.push(format!(
        "-device virtio-net-pci,netdev=secondarynet{name},mac=52:55:00:d1:56:{mac:02x},bus={bus} \
         -netdev tap,id=secondarynet{name},ifname=stap{name},script=no,downscript=no"
    ));
    words
}

#[cfg(test)]
mod tests {
    use super::super::refuse::testing::args;
    use super::*;

    #[test]
    fn a_plain_node_gets_what_vm_sh_needs() {
        assert_eq!(
            command(&args(&["--memory=5120M", "--cpu=6", "--hugepages-2m=0"]), 1),
            "/vm.sh -n /var/run/disk/disk.qcow2 --memory 5120M --cpu 6 --numa 1"
        );
    }

    #[test]
    fn kernel_arguments_are_one_word_for_the_shell() {
        let text = command(&args(&["--kernel-args=a=1 b", "--hugepages-1g=2", "--enable-fips"]), 1);
        let wanted =
            "--additional-kernel-args 'a=1 b hugepagesz=2M hugepages=64 hugepagesz=1G hugepages=2 fips=1'";
        assert!(text.ends_with(wanted), "{text}");
    }

    #[test]
    fn every_device_has_its_own_address() {
        let all = args(&[
            "--secondary-nics=2",
            "--numa=2",
            "--nvme=1G",
            "--scsi=1G",
            "--scsi=2G",
            "--usb=1M",
            "--usb=1M",
            "--usb=1M",
            "--shared-block-device=1G",
        ]);
        let text = qemu_args(&all, 2);
        for word in [
            "ifname=stap1-0",
            "ifname=stap1-1",
            "mac=52:55:00:d1:56:02",
            "mac=52:55:00:d1:56:03",
            "id=secondaryrp1,slot=4,chassis=11,bus=secondarypxb1",
            "lun=1",
            "id=bus1",
            "bus=bus1.0,drive=stick2",
            "bus=pci.1,drive=shared-disk-0",
        ] {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        let command = command(&all, 2);
        assert!(command.contains(" --scsi-device-size '1G' --scsi-device-size '2G' --nvme-device-size '1G'"));
    }
}

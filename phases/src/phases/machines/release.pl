# Gives a lease back to dnsmasq in the name of a machine that is gone (DHCPRELEASE, RFC 2131).
#   release.pl DEVICE SERVER ADDRESS MAC
use strict;
use warnings;
use Socket;

my ($device, $server, $address, $mac) = @ARGV;
socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die "socket: $!\n";
# As if it came in from the machine's network, the only one that dnsmasq heeds: SO_BINDTODEVICE is 25.
setsockopt($socket, SOL_SOCKET, 25, $device) or die "device $device: $!\n";
$mac =~ tr/://d;
my $message = pack('C4 N n2 a4 x12 H12 x10 x192 N', 1, 1, 6, 0, $$, 0, 0, inet_aton($address), $mac, 0x63825363);
$message .= pack('C3 C2 a4 C', 53, 1, 7, 54, 4, inet_aton($server), 255);
send($socket, $message, 0, pack_sockaddr_in(67, inet_aton($server))) or die "server $server: $!\n";

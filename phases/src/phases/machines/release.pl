# Gives the leases of a machine that is gone back to dnsmasq in its name, and waits until they are forgotten.
#   release.pl DEVICE LEASES SERVER ADDRESS…
# DEVICE leads to the machines; LEASES is dnsmasq's lease file, SERVER its IPv4 address. An address without a lease
# has nothing to give back.
use strict;
use warnings;
use Socket qw(:DEFAULT AF_INET6 inet_pton pack_sockaddr_in6);
use constant { SO_BINDTODEVICE => 25, PATIENCE => 2, PAUSE => 0.05 }; # seconds

my ($device, $leases, $server, @addresses) = @ARGV;

# The lease of an address, if there is one: EXPIRY, MAC or IAID, ADDRESS, NAME, CLIENT-ID or DUID. A line of two words
# is the server's own DUID.
sub lease {
    my ($address) = @_;
    my ($own, @found);
    open my $file, '<', $leases or die "$leases: $!\n";
    while (my $line = <$file>) {
        my @words = split " ", $line;
        $own = $words[1] if $words[0] eq 'duid';
        @found = @words if @words >= 5 && $words[2] eq $address;
    }
    return @found ? { id => $found[1], client => octets($found[4]), server => octets($own // '') } : undef;
}

sub octets { my ($hex) = @_; $hex =~ tr/://d; return pack 'H*', $hex }

sub send_by {
    my ($family, $message, $to) = @_;
    socket my $socket, $family, SOCK_DGRAM, 0 or die "socket: $!\n";
    # As if it came in from the machines' network, the only one that dnsmasq heeds.
    setsockopt $socket, SOL_SOCKET, SO_BINDTODEVICE, $device or die "device $device: $!\n";
    defined send $socket, $message, 0, $to or die "send: $!\n";
}

# DHCPRELEASE (RFC 2131, 4.4.6): options message type and server identifier.
sub release4 {
    my ($address, $lease) = @_;
    my $mac = octets($lease->{id});
    my $message = pack 'C4 N n2 a4 x12 a16 x192 N', 1, 1, 6, 0, $$, 0, 0, inet_aton($address), $mac, 0x63825363;
    $message .= pack 'C3 C2 a4 C', 53, 1, 7, 54, 4, inet_aton($server), 255;
    send_by(PF_INET, $message, pack_sockaddr_in(67, inet_aton($server)));
}

# Release (RFC 8415, 18.2.7): options Client Identifier, Server Identifier, and IA_NA with the address, to
# All_DHCP_Relay_Agents_and_Servers.
sub release6 {
    my ($address, $lease) = @_;
    my $option = sub { my ($code, $value) = @_; return pack 'n n/a', $code, $value };
    my $leased = $option->(5, inet_pton(AF_INET6, $address) . pack 'N2', 0, 0);
    my $message = pack('N', 8 << 24 | $$ & 0xffffff) . $option->(1, $lease->{client})
        . $option->(2, $lease->{server}) . $option->(3, pack('N3', $lease->{id}, 0, 0) . $leased);
    open my $file, '<', "/sys/class/net/$device/ifindex" or die "device $device: $!\n";
    my $index = <$file>;
    send_by(AF_INET6, $message, pack_sockaddr_in6(547, inet_pton(AF_INET6, 'ff02::1:2'), $index + 0));
}

my @held = grep { lease($_) } @addresses;
for my $address (@held) {
    my $lease = lease($address) or next;
    $address =~ /:/ ? release6($address, $lease) : release4($address, $lease);
}
for (my $waited = 0; @held = grep { lease($_) } @held; $waited += PAUSE) {
    die "dnsmasq keeps the lease of @held\n" if $waited >= PATIENCE;
    select undef, undef, undef, PAUSE;
}

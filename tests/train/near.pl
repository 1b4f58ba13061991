# near.pl TOLERANCE A B: do two weight files hold the same tensors, numbers within the tolerance? With `average D FILE.. E`
# instead: is E the moving average by D of the files before it, which begins with the first?
use strict;

sub tensors {
    my ($name) = @_;
    open my $f, '<:raw', $name or die "$name: $!\n";
    local $/;
    my $text = <$f>;
    my $length = unpack 'Q<', $text;
    my ($header, %of) = (substr $text, 8, $length);
    while ($header =~ /"([^"]+)":\s*\{[^}]*"data_offsets":\s*\[(\d+),\s*(\d+)\]/g) {
        $of{$1} = [unpack 'f<*', substr $text, 8 + $length + $2, $3 - $2];
    }
    die "$name holds nothing\n" unless %of;
    return \%of;
}

sub compare {
    my ($tolerance, $x, $y) = @_;
    my $worst = 0;
    die "other tensors\n" unless join(' ', sort keys %$x) eq join ' ', sort keys %$y;
    for my $name (sort keys %$x) {
        die "$name has another size\n" unless @{$x->{$name}} == @{$y->{$name}};
        for my $i (0 .. $#{$x->{$name}}) {
            my $gap = abs $x->{$name}[$i] - $y->{$name}[$i];
            die "$name, element $i: $x->{$name}[$i] and $y->{$name}[$i]\n" unless $gap <= $tolerance;
            $worst = $gap if $gap > $worst;
        }
    }
    printf "%d tensors within %.2g\n", scalar keys %$x, $worst;
}

my ($tolerance, @files) = @ARGV;
if ($tolerance eq 'average') {
    my $decay = shift @files;
    my $made = tensors(pop @files);
    my $mean = tensors(shift @files);
    for my $next (map { tensors($_) } @files) {
        for my $name (keys %$mean) {
            my $w = $next->{$name};
            $mean->{$name} = [map { $decay * $mean->{$name}[$_] + (1 - $decay) * $w->[$_] } 0 .. $#$w];
        }
    }
    compare(1e-6, $mean, $made);
} elsif ($tolerance eq 'only') {         # only TOLERANCE A B: those that B has
    my ($x, $y) = map { tensors($_) } @files[1, 2];
    compare($files[0], {map { $_ => $x->{$_} } grep { $x->{$_} } keys %$y}, $y);
} else {
    compare($tolerance, tensors($files[0]), tensors($files[1]));
}

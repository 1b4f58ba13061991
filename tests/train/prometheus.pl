# prometheus.pl FILE: is it text of the exposition format 0.0.4? Each metric has HELP, then TYPE, once, then all its samples;
# labels and numbers are well-formed; no sample twice.
use strict;
use warnings;
my ($helped, $typed, $current, %metric, %sample) = ("", "", "");
open my $f, "<", $ARGV[0] or die "$ARGV[0]: $!";
local $/;
my $all = <$f>;
die "the last line has no end\n" unless $all =~ /\n\z/;
for my $line (split /\n/, $all) {
    if ($line =~ /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*)$/) {
        die "twice: $line\n" if $metric{$1}++;
        $current = $1;
        $typed = "";
    } elsif ($line =~ /^# TYPE (\S+) (gauge|counter)$/) {
        my ($name, $type) = ($1, $2);
        die "not behind its HELP: $line\n" if $name ne $current || $typed;
        die "a counter is called .._total, nothing else is: $line\n" if ($type eq "counter") != ($name =~ /_total$/);
        $typed = $type;
    } elsif ($line =~ /^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\} ([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf)|NaN)$/) {
        die "not with its TYPE: $line\n" if $1 ne $current || !$typed;
        die "twice: $line\n" if $sample{"$1 $2"}++;
    } else {
        die "no line of the format: $line\n";
    }
}
print scalar(keys %metric), " metrics, ", scalar(keys %sample), " samples\n";

# well_formed.pl FILE: every tag is closed in order, attributes are quoted and stand once, nothing bare is in the text, and
# nothing is loaded from elsewhere.
use strict;
use warnings;
local $/;
open my $f, "<", $ARGV[0] or die "$ARGV[0]: $!";
my ($all, @open, %count) = (scalar <$f>);
$all =~ s/^<!DOCTYPE html>\n// or die "no doctype\n";
$all =~ s{<style>([^<]*)</style>}{<style></style>} or die "no style\n";
while ($all =~ /\G([^<]*)(?:<([^>]*)>|\z)/gc) {
    my ($text, $tag) = ($1, $2);
    die "a bare & or >: $text\n" if $text =~ />/ || $text =~ /&(?!(amp|lt|gt|quot|#\d+);)/;
    last unless defined $tag;
    if ($tag =~ m{^/(\w+)$}) {
        my $last = pop @open // "nothing";
        die "</$1> closes $last\n" if $last ne $1;
        next;
    }
    $tag =~ m{^(\w+)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)$} or die "no tag: <$tag>\n";
    my ($name, $attributes, $empty) = ($1, $2, $3);
    my %seen;
    while ($attributes =~ /([\w:-]+)="([^"]*)"/g) {
        die "$1 twice in <$tag>\n" if $seen{$1}++;
        die "loads something: <$tag>\n" if $1 =~ /^(src|href)$/;
        die "no number in a path: $2\n" if $1 eq "d" && $2 !~ /^([ML]-?[\d.]+ -?[\d.]+)*$/;
    }
    die "a script\n" if $name eq "script";
    $count{$name}++;
    push @open, $name unless $empty;
}
die "open at the end: @open\n" if @open;
print $count{svg} // 0, " charts\n";

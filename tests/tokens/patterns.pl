# patterns.pl TEXT PATTERN WORK FLOW_TOKENS: how the pattern cuts the text: bytes of each piece. The vocabulary has every piece of
# the text that a cut could make, and a word that is in it stays whole.
use strict;
my ($file, $pattern, $work, $tokens) = @ARGV;
open my $in, '<:raw', $file or die $!;
my $text = do { local $/; <$in> };
my (%letter, %id, @piece);
my $other = 256;
for my $b (0 .. 255) {
    my $printable = ($b >= 33 && $b <= 126) || ($b >= 0xa1 && $b <= 0xac) || $b >= 0xae;
    $letter{chr $b} = sprintf '\u%04x', $printable ? $b : $other++;
}
my @at = grep { (ord(substr $text, $_, 1) & 0xc0) != 0x80 } 0 .. length($text) - 1;
for my $piece ((map { chr } 0 .. 255), map { my $i = $_; map { substr $text, $i, $_ - $i } grep { $_ > $i } @at, length $text } @at) {
    next if defined $id{$piece};
    $id{$piece} = @piece;
    push @piece, $piece;
}
my $vocabulary = join ',', map { '"' . join('', map { $letter{$_} } split //, $_) . "\":$id{$_}" } @piece;
(my $quoted = $pattern) =~ s/([\\"])/\\$1/g;
open my $out, '>', "$work/pattern.json" or die $!;
print $out '{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"', $quoted,
    '"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},',
    '"model":{"type":"BPE","ignore_merges":true,"vocab":{', $vocabulary, '},"merges":[]}}';
close $out;
system($tokens, $file, '--tokenizer', "$work/pattern.json", '-o', "$work/pattern.bin") == 0 or exit 1;
open my $ids, '<:raw', "$work/pattern.bin" or die $!;
print join(' ', map { length $piece[$_] } unpack 'v*', do { local $/; <$ids> }), "\n";

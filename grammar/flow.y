/* The grammar. Tokens come from parse/scan.c: brackets are balanced, every statement is closed by END, and a name is a
 * word only in its place, so that a rule reads like the language and needs no case for line ends or words as names.
 * An action is one constructor call; what a rule takes too generously is checked in parse/check.c. */
%require "3.8"
%expect 0
%define api.pure full
%define api.prefix {flow_}
%define api.token.prefix {T_}
%define api.location.type {struct span}
%define parse.error custom
%define parse.lac full
%locations
%param {struct scan *s}

%code requires {
#include "ast.h"
#include "parse/scan.h"
}
%code provides {
int flow_lex(FLOW_STYPE *value, FLOW_LTYPE *at, struct scan *s);
}
%code {
#include "base/diag.h"
#include "parse/check.h"
#define YYMALLOC mem_alloc
#define YYFREE(p) ((void)(p))
#define YYLLOC_DEFAULT(at, rhs, n) \
    ((at) = (n) ? span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n)) \
                : (struct span){YYRHSLOC(rhs, 0).file, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})
#define MAKE(kind, ...) node_make(AST_##kind, __VA_ARGS__)
#define NAMED(kind, ...) node_named(AST_##kind, __VA_ARGS__)
static void flow_error(const struct span *at, struct scan *s, const char *text);
}

%union {
    const char *text;
    struct ast *node;
}

/* Words at the start of a statement. */
%token IMPORT "import" DIM "dim" CONST "const" LAYER "layer" MODEL "model" PLAN "plan" TRAIN "train"
%token EVALUATE "evaluate" SAMPLE "sample" FILES "files" CLUSTER "cluster" OP "op"
%token PARAM "param" STATE "state" UPDATE "update" REPEAT "repeat" RETURN "return" OUTPUT "output" METRIC "metric"
%token MESH "mesh" MICROBATCHES "microbatches" PIPELINE "pipeline" SPLIT "split" SBP "sbp" PIN "pin" SAVE "save"
%token PLACE "place" SHARD "shard" OFFLOAD "offload" BUCKETS "buckets" PREFETCH "prefetch" KEEP "keep" RECOMPUTE "recompute"
%token PRECISION "precision" MEMORY "memory" EXPECT "expect" STRICT "strict"
%token DATA "data" OPTIMIZER "optimizer" FROZEN "frozen" OPTIONAL "optional" HOSTS "hosts" LINK "link"
/* Words in the middle of one. */
%token AS "as" COMM "comm" DEFERRED "deferred" EVERY "every" IGNORE "ignore" ON "on" OVER "over" PAD "pad" PER "per"
%token TRANSPOSE "transpose" UNEVEN "uneven"
/* Signs. LAYOUT is the brace of a layout, LBRACE that of a block. */
%token END "end of the statement" LBRACE "{" RBRACE "}" LAYOUT "layout {" LPAREN "(" RPAREN ")" LBRACKET "[" RBRACKET "]"
%token COMMA "," COLON ":" EQUAL "=" DOT "." DOTS ".." ARROW "->" BLANK "_"
%token <text> NAME "a name" NUMBER "a number" STRING "a string" PATTERN "a path"

%token OR "or" AND "and" NOT "not" LESS "<" LESS_EQUAL "<=" GREATER ">" GREATER_EQUAL ">=" EQUALS "==" NOT_EQUAL "!="
%token PLUS "+" MINUS "-" TIMES "*" DIVIDE "/" AT "@"
%left "or"
%left "and"
%precedence "not"
%nonassoc "<" "<=" ">" ">=" "==" "!="
%left "+" "-"
%left "*" "/" "@"
%precedence NEGATIVE

%type <node> items item dims dim consts const header parameters parameter type types type_dims type_dim
%type <node> body statements statement targets expressions
%type <node> expr labelled postfix primary arguments argument_list argument index indices size size_list
%type <node> plan_block plan_lines plan_line axes axis axis_size layout layout_axes layout_axis layout_names names
%type <node> layout_argument patterns pattern on_patterns quantity comparison
%type <node> pipeline_block pipeline_lines pipeline_line counts count conditions condition_list condition placement
%type <node> train_block train_lines train_line settings setting setting_lines data_block data_lines data_line
%type <node> evaluate_block evaluate_lines evaluate_line files_block files_lines files_line shape
%type <node> cluster_block cluster_lines cluster_line
%type <text> unit

%%
program: items                          { s->program = $1; $1->span = (struct span){s->file, 0, s->size}; }

items:
  %empty                                { $$ = MAKE(PROGRAM, @$, NULL, 0); }
| items item END                        { $$ = add_all($1, $2, @$); }
| items error END                       { $$ = $1; yyerrok; }

item:
  "import" STRING                       { $$ = NAMED(IMPORT, @$, @2, $2, 0); }
| "dim" dims                            { $$ = $2; }
| "const" consts                        { $$ = $2; }
| "layer" NAME header body              { $$ = NAMED(LAYER, @$, @2, $2, 2, $3, $4); }
| "layer" error body                    { $$ = NULL; yyerrok; }
| "layer" error                         { $$ = NULL; yyerrok; }
| "model" NAME header body              { $$ = NAMED(MODEL, @$, @2, $2, 2, $3, $4); }
| "model" error body                    { $$ = NULL; yyerrok; }
| "model" error                         { $$ = NULL; yyerrok; }
| "op" NAME header "->" types setting_lines
                                        { $$ = NAMED(OP, @$, @2, $2, 2, $3, $5); add_kids_of($$, $6); }
| "op" error setting_lines              { $$ = NULL; yyerrok; }
| "op" error                            { $$ = NULL; yyerrok; }
| "plan" NAME plan_block                { $$ = NAMED(PLAN, @$, @2, $2, 0); add_kids_of($$, $3); }
| "plan" error plan_block               { $$ = NULL; yyerrok; }
| "plan" error                          { $$ = NULL; yyerrok; }
| "train" train_block                   { $$ = MAKE(TRAIN, @$, NULL, 0); add_kids_of($$, $2); }
| "train" error train_block             { $$ = NULL; yyerrok; }
| "train" error                         { $$ = NULL; yyerrok; }
| "evaluate" evaluate_block             { $$ = MAKE(EVALUATE, @$, NULL, 1, NULL); add_kids_of($$, $2); }
| "evaluate" "every" size evaluate_block { $$ = MAKE(EVALUATE, @$, NULL, 1, $3); add_kids_of($$, $4); }
| "evaluate" error evaluate_block       { $$ = NULL; yyerrok; }
| "evaluate" error                      { $$ = NULL; yyerrok; }
| "sample" setting_lines                { $$ = MAKE(SAMPLE, @$, NULL, 0); add_kids_of($$, $2); }
| "sample" error setting_lines          { $$ = NULL; yyerrok; }
| "sample" error                        { $$ = NULL; yyerrok; }
| "files" files_block                   { $$ = MAKE(FILES, @$, NULL, 0); add_kids_of($$, $2); }
| "files" error files_block             { $$ = NULL; yyerrok; }
| "files" error                         { $$ = NULL; yyerrok; }
| "cluster" cluster_block               { $$ = MAKE(CLUSTER, @$, NULL, 0); add_kids_of($$, $2); }
| "cluster" error cluster_block         { $$ = NULL; yyerrok; }
| "cluster" error                       { $$ = NULL; yyerrok; }

dims:
  dim                                   { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| dims "," dim                          { $$ = ast_add($1, $3); }
dim:
  NAME "=" size                         { $$ = NAMED(DIM, @$, @1, $1, 2, $3, NULL); }
| NAME "=" size "pad" size              { $$ = NAMED(DIM, @$, @1, $1, 2, $3, $5); }

consts:
  const                                 { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| consts "," const                      { $$ = ast_add($1, $3); }
const: NAME "=" size                    { $$ = NAMED(CONST, @$, @1, $1, 1, $3); }

/* ---- headers and types ---- */

header:
  "(" ")"                               { $$ = MAKE(PARAMS, @$, NULL, 0); }
| "(" parameters ")"                    { $$ = $2; $$->span = @$; }
parameters:
  parameter                             { $$ = MAKE(PARAMS, @$, NULL, 1, $1); }
| parameters "," parameter              { $$ = ast_add($1, $3); }
parameter:
  NAME ":" type                         { $$ = NAMED(INPUT, @$, @1, $1, 2, $3, NULL); }
| NAME ":" type "ignore" size           { $$ = NAMED(INPUT, @$, @1, $1, 2, $3, $5); }
| "dim" NAME                            { $$ = NAMED(DIM_ARG, @$, @2, $2, 0); }
| NAME                                  { $$ = NAMED(SCALAR_ARG, @$, @1, $1, 1, NULL); }
| NAME "=" size                         { $$ = NAMED(SCALAR_ARG, @$, @1, $1, 1, $3); }

type:
  NAME                                  { $$ = NAMED(TYPE, @$, @1, $1, 0); }
| NAME "[" "]"                          { $$ = NAMED(TYPE, @$, @1, $1, 0); $$->num = 1; }
| NAME "[" type_dims "]"                { $$ = $3; $$->span = @$; $$->name_span = @1; $$->name = $1; $$->num = 1; }
types:
  type                                  { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| types "," type                        { $$ = ast_add($1, $3); $$->span = @$; }
type_dims:
  type_dim                              { $$ = MAKE(TYPE, @$, NULL, 1, $1); }
| type_dims "," type_dim                { $$ = ast_add($1, $3); }
type_dim:
  size
| ".."                                  { $$ = MAKE(DOTS, @$, NULL, 0); }

/* Sizes: expressions without labels and tensors, for dims, consts and counts. */
size:
  NUMBER                                { $$ = number_node(@1, $1); }
| NAME                                  { $$ = NAMED(NAME, @$, @1, $1, 0); }
| NAME "(" size_list ")"                { $$ = call_node(s, @$, NAMED(NAME, @1, @1, $1, 0), $3); }
| "(" size ")"                          { $$ = $2; }
| "-" size %prec NEGATIVE               { $$ = deep(s, NAMED(UNARY, @$, @1, "-", 1, $2)); }
| size "+" size                         { $$ = deep(s, NAMED(BINARY, @$, @2, "+", 2, $1, $3)); }
| size "-" size                         { $$ = deep(s, NAMED(BINARY, @$, @2, "-", 2, $1, $3)); }
| size "*" size                         { $$ = deep(s, NAMED(BINARY, @$, @2, "*", 2, $1, $3)); }
| size "/" size                         { $$ = deep(s, NAMED(BINARY, @$, @2, "/", 2, $1, $3)); }
size_list:
  size                                  { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| size_list "," size                    { $$ = ast_add($1, $3); }

/* ---- bodies ---- */

body: "{" statements "}"                { $$ = $2; $$->span = @$; }
statements:
  %empty                                { $$ = MAKE(BODY, @$, NULL, 0); }
| statements statement END              { $$ = add_all($1, $2, @$); }
| statements error END                  { $$ = $1; yyerrok; }
statement:
  targets "=" expr                      { $$ = assign_node(s, @$, $1, $3); }
| targets                               { $$ = unused_value(s, @$, $1); }
| "param" NAME ":" type "=" expr        { $$ = NAMED(PARAM, @$, @2, $2, 2, $4, $6); }
| "state" NAME ":" type "=" expr        { $$ = NAMED(STATE, @$, @2, $2, 2, $4, $6); }
| "update" NAME "=" expr                { $$ = NAMED(UPDATE, @$, @2, $2, 1, $4); }
| "repeat" size body                    { $$ = MAKE(REPEAT, @$, NULL, 2, $2, $3); }
| "repeat" size "as" NAME body          { $$ = NAMED(REPEAT, @$, @4, $4, 2, $2, $5); }
| "repeat" error body                   { $$ = NULL; yyerrok; }
| "repeat" error                        { $$ = NULL; yyerrok; }
| "return" expressions                  { $$ = MAKE(RETURN, @$, NULL, 0); add_kids_of($$, $2); }
| "output" NAME                         { $$ = MAKE(OUTPUT, @$, NULL, 2, NAMED(NAME, @2, @2, $2, 0), NULL); }
| "output" NAME "=" expr                { $$ = MAKE(OUTPUT, @$, NULL, 2, NAMED(NAME, @2, @2, $2, 0), $4); }
| "metric" NAME "=" expr                { $$ = NAMED(METRIC, @$, @2, $2, 1, $4); }
targets: expressions
expressions:
  expr                                  { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| expressions "," expr                  { $$ = ast_add($1, $3); $$->span = @$; }

/* ---- expressions ---- */

expr:
  labelled
| "-" expr %prec NEGATIVE               { $$ = deep(s, NAMED(UNARY, @$, @1, "-", 1, $2)); }
| "not" expr                            { $$ = deep(s, NAMED(UNARY, @$, @1, "not", 1, $2)); }
| expr "+" expr                         { $$ = deep(s, NAMED(BINARY, @$, @2, "+", 2, $1, $3)); }
| expr "-" expr                         { $$ = deep(s, NAMED(BINARY, @$, @2, "-", 2, $1, $3)); }
| expr "*" expr                         { $$ = deep(s, NAMED(BINARY, @$, @2, "*", 2, $1, $3)); }
| expr "/" expr                         { $$ = deep(s, NAMED(BINARY, @$, @2, "/", 2, $1, $3)); }
| expr "@" expr                         { $$ = deep(s, NAMED(BINARY, @$, @2, "@", 2, $1, $3)); }
| expr "<" expr                         { $$ = deep(s, NAMED(BINARY, @$, @2, "<", 2, $1, $3)); }
| expr "<=" expr                        { $$ = deep(s, NAMED(BINARY, @$, @2, "<=", 2, $1, $3)); }
| expr ">" expr                         { $$ = deep(s, NAMED(BINARY, @$, @2, ">", 2, $1, $3)); }
| expr ">=" expr                        { $$ = deep(s, NAMED(BINARY, @$, @2, ">=", 2, $1, $3)); }
| expr "==" expr                        { $$ = deep(s, NAMED(BINARY, @$, @2, "==", 2, $1, $3)); }
| expr "!=" expr                        { $$ = deep(s, NAMED(BINARY, @$, @2, "!=", 2, $1, $3)); }
| expr "and" expr                       { $$ = deep(s, NAMED(BINARY, @$, @2, "and", 2, $1, $3)); }
| expr "or" expr                        { $$ = deep(s, NAMED(BINARY, @$, @2, "or", 2, $1, $3)); }

/* A label binds tighter than any operator: `x + attn: A(x) + b` is (x + A(x)) + b. */
labelled:
  postfix
| postfix ":" labelled                  { $$ = deep(s, label_node(s, @$, $1, $3)); }

postfix:
  primary
| postfix "." NAME                      { $$ = deep(s, NAMED(MEMBER, @$, @3, $3, 1, $1)); }
| postfix "(" arguments ")"             { $$ = deep(s, call_node(s, @$, $1, $3)); }
| postfix "[" indices "]"               { $$ = deep(s, index_node(@$, $1, $3)); }

primary:
  NAME                                  { $$ = NAMED(NAME, @$, @1, $1, 0); }
| NUMBER                                { $$ = number_node(@1, $1); }
| STRING                                { $$ = MAKE(STRING, @$, $1, 0); }
| "(" expr ")"                          { $$ = $2; }
| "[" expressions "]"                   { $$ = $2; $$->span = $$->name_span = @$; }
| layout

arguments:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| argument_list
| argument_list ","
argument_list:
  argument                              { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| argument_list "," argument            { $$ = ast_add($1, $3); }
argument:
  expr
| NAME "=" expr                         { $$ = NAMED(KEYWORD, @$, @1, $1, 1, $3); }

indices:
  index                                 { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| indices "," index                     { $$ = ast_add($1, $3); }
index:
  expr
| ":"                                   { $$ = MAKE(ALL, @$, NULL, 0); }
| "_"                                   { $$ = MAKE(NEW_AXIS, @$, NULL, 0); }
| expr ".."                             { $$ = MAKE(RANGE, @$, NULL, 2, $1, NULL); }
| ".." expr                             { $$ = MAKE(RANGE, @$, NULL, 2, NULL, $2); }
| expr ".." expr                        { $$ = MAKE(RANGE, @$, NULL, 2, $1, $3); }

/* ---- plans ---- */

plan_block: "{" plan_lines "}"          { $$ = $2; }
plan_lines:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| plan_lines plan_line END              { $$ = add_all($1, $2, @$); }
| plan_lines error END                  { $$ = $1; yyerrok; }
plan_line:
  "mesh" NAME "=" "[" axes "]"          { $$ = NAMED(MESH, @$, @2, $2, 2, $5, NULL); }
| "mesh" NAME "=" "[" axes "]" "on" STRING
                                        { $$ = NAMED(MESH, @$, @2, $2, 2, $5, MAKE(STRING, @8, $8, 0)); }
| "microbatches" size "over" NAME       { $$ = MAKE(MICROBATCHES, @$, NULL, 2, $2, NAMED(NAME, @4, @4, $4, 0)); }
| "pipeline" "over" NAME pipeline_block { $$ = NAMED(PIPELINE, @$, @3, $3, 0); add_kids_of($$, $4); }
| "pipeline" error pipeline_block       { $$ = NULL; yyerrok; }
| "pipeline" error                      { $$ = NULL; yyerrok; }
| "sbp" patterns "=" layout             { $$ = MAKE(SBP, @$, NULL, 2, $2, $4); }
| "pin" patterns "=" layout             { $$ = MAKE(PIN, @$, NULL, 2, $2, $4); }
| "save" patterns                       { $$ = MAKE(SAVE, @$, NULL, 2, $2, NULL); }
| "save" patterns "=" layout            { $$ = MAKE(SAVE, @$, NULL, 2, $2, $4); }
| "place" patterns "on" placement       { $$ = MAKE(PLACE, @$, NULL, 2, $2, $4); }
| "shard" NAME "over" names             { $$ = shard_node(s, @$, @2, $2, $4); }
| "shard" NAME "over" "(" names ")"     { $$ = shard_node(s, @$, @2, $2, $5); }
| "offload" names NAME NAME             { $$ = offload_node(s, @$, $2, @3, $3, @4, $4); }
| "buckets" quantity                    { $$ = NAMED(SETTING, @$, @1, "buckets", 1, bytes(s, $2)); }
| "prefetch" size                       { $$ = NAMED(SETTING, @$, @1, "prefetch", 1, $2); }
| "keep" NAME NAME                      { $$ = keep_node(s, @$, @2, $2, @3, $3); }
| "recompute" patterns                  { $$ = MAKE(RECOMPUTE, @$, NULL, 1, $2); }
| "precision" NAME                      { $$ = NAMED(PRECISION, @$, @2, $2, 0); }
| "precision" NAME setting_lines        { $$ = NAMED(PRECISION, @$, @2, $2, 0); add_kids_of($$, $3); }
| "precision" error setting_lines       { $$ = NULL; yyerrok; }
| "precision" error                     { $$ = NULL; yyerrok; }
| "memory" quantity "per" NAME          { $$ = memory_node(s, @$, $2, @4, $4); }
| "expect" "comm" pattern conditions ":" comparison
                                        { $$ = expect_node(@$, $3, $4, $6); }
| "strict"                              { $$ = MAKE(FLAG, @$, "strict", 0); }
| "cluster" cluster_block               { $$ = MAKE(CLUSTER, @$, NULL, 0); add_kids_of($$, $2); }
| "cluster" error cluster_block         { $$ = NULL; yyerrok; }
| "cluster" error                       { $$ = NULL; yyerrok; }

axes:
  axis                                  { $$ = MAKE(AXES, @$, NULL, 1, $1); }
| axes "," axis                         { $$ = ast_add($1, $3); $$->span = @$; }
axis: NAME ":" axis_size                { $$ = NAMED(AXIS, @$, @1, $1, 1, $3); }
axis_size:
  size
| "(" axes ")"                          { $$ = $2; $$->span = @$; }

names:
  NAME                                  { $$ = MAKE(NAMES, @$, NULL, 1, NAMED(NAME, @1, @1, $1, 0)); }
| names "," NAME                        { $$ = ast_add($1, NAMED(NAME, @3, @3, $3, 0)); $$->span = @$; }

patterns:
  pattern                               { $$ = MAKE(PATTERNS, @$, NULL, 1, $1); }
| patterns "," pattern                  { $$ = ast_add($1, $3); $$->span = @$; }
pattern: PATTERN                        { $$ = MAKE(PATTERN, @$, $1, 0); }

layout:
  "layout {" "}"                        { $$ = MAKE(LAYOUT, @$, NULL, 0); }
| "layout {" layout_axes "}"            { $$ = $2; $$->span = @$; }
layout_axes:
  layout_axis                           { $$ = MAKE(LAYOUT, @$, NULL, 1, $1); }
| layout_axes "," layout_axis           { $$ = ast_add($1, $3); }
layout_axis:
  layout_names ":" NAME                 { $$ = layout_node(s, @$, $1, @3, $3, NULL); }
| layout_names ":" NAME layout_argument { $$ = layout_node(s, @$, $1, @3, $3, $4); }
| layout_names ":" NAME layout_argument "uneven"
                                        { $$ = layout_node(s, @$, $1, @3, $3, $4); $$->is_int = true; }
layout_names:
  NAME                                  { $$ = MAKE(NAMES, @$, NULL, 1, NAMED(NAME, @1, @1, $1, 0)); }
| "(" names ")"                         { $$ = $2; $$->span = @$; }
layout_argument:
  "(" NAME ")"                          { $$ = NAMED(NAME, @2, @2, $2, 0); }
| "(" NUMBER ")"                        { $$ = number_node(@2, $2); }

placement:
  NAME "." NAME "[" size "]"            { $$ = NAMED(PLACEMENT, @$, @1, $1, 2, NAMED(NAME, @3, @3, $3, 0), $5); }
| NAME "." NAME "[" size ".." size "]"  { $$ = NAMED(PLACEMENT, @$, @1, $1, 2, NAMED(NAME, @3, @3, $3, 0),
                                                     MAKE(RANGE, span_join(@5, @7), NULL, 2, $5, $7)); }
| NAME "." NAME "[" size ".." "]"       { $$ = NAMED(PLACEMENT, @$, @1, $1, 2, NAMED(NAME, @3, @3, $3, 0),
                                                     MAKE(RANGE, span_join(@5, @6), NULL, 2, $5, NULL)); }
| NAME "." NAME "[" ".." size "]"       { $$ = NAMED(PLACEMENT, @$, @1, $1, 2, NAMED(NAME, @3, @3, $3, 0),
                                                     MAKE(RANGE, span_join(@5, @6), NULL, 2, NULL, $6)); }

conditions:
  %empty                                { $$ = MAKE(NAMES, @$, NULL, 0); }
| condition_list
condition_list:
  condition                             { $$ = MAKE(NAMES, @$, NULL, 1, $1); }
| condition_list "," condition          { $$ = ast_add($1, $3); $$->span = @$; }
condition:
  "per" NAME                            { $$ = NAMED(NAME, @$, @2, $2, 0); }
| NAME                                  { $$ = NAMED(NAME, @$, @1, $1, 0); }
comparison:
  NAME "(" names ")" "==" size          { $$ = compare_node(@$, "==", @1, $1, $3, $6); }
| NAME "(" names ")" "<=" size          { $$ = compare_node(@$, "<=", @1, $1, $3, $6); }

pipeline_block: "{" pipeline_lines "}"  { $$ = $2; }
pipeline_lines:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| pipeline_lines pipeline_line END      { $$ = add_all($1, $2, @$); }
| pipeline_lines error END              { $$ = $1; yyerrok; }
pipeline_line:
  setting
| "split" pattern                       { $$ = MAKE(SPLIT, @$, NULL, 2, $2, NULL); }
| "split" pattern "uneven"              { $$ = MAKE(SPLIT, @$, NULL, 2, $2, NULL); $$->is_int = true; }
| "split" pattern "=" "[" counts "]"    { $$ = MAKE(SPLIT, @$, NULL, 2, $2, $5); $5->span = span_join(@4, @6); }
counts:
  count                                 { $$ = MAKE(LIST, @$, NULL, 1, $1); }
| counts "," count                      { $$ = ast_add($1, $3); }
count:
  size
| size NAME size                        { $$ = times_node(s, @$, $1, @2, $2, $3); }

/* ---- train, evaluate, sample, files, cluster ---- */

/* A setting is a word and a value; which words a block knows is checked later, by the pass that reads them. */
setting:
  NAME expr                             { $$ = NAMED(SETTING, @$, @1, $1, 2, $2, NULL); }
| NAME "=" expr                         { $$ = NAMED(SETTING, @$, @1, $1, 2, $3, NULL); }
| NAME expr on_patterns                 { $$ = NAMED(SETTING, @$, @1, $1, 2, $2, $3); }
| NAME "=" expr on_patterns             { $$ = NAMED(SETTING, @$, @1, $1, 2, $3, $4); }
| NAME expr "deferred"                  { $$ = NAMED(SETTING, @$, @1, $1, 3, $2, NULL,
                                                     NAMED(NAME, @3, @3, "deferred", 0)); }
on_patterns:
  "on" "[" patterns "]"                 { $$ = $3; }
| "on" pattern                          { $$ = MAKE(PATTERNS, @2, NULL, 1, $2); }
setting_lines: "{" settings "}"         { $$ = $2; }
settings:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| settings setting END                  { $$ = add_all($1, $2, @$); }
| settings error END                    { $$ = $1; yyerrok; }

train_block: "{" train_lines "}"        { $$ = $2; }
train_lines:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| train_lines train_line END            { $$ = add_all($1, $2, @$); }
| train_lines error END                 { $$ = $1; yyerrok; }
train_line:
  setting
| "data" data_block                     { $$ = $2; $$->span = @$; }
| "data" error data_block               { $$ = NULL; yyerrok; }
| "data" error                          { $$ = NULL; yyerrok; }
| "optimizer" NAME                      { $$ = MAKE(BLOCK, @$, "optimizer", 1, NAMED(NAME, @2, @2, $2, 0)); }
| "optimizer" NAME setting_lines        { $$ = MAKE(BLOCK, @$, "optimizer", 1, NAMED(NAME, @2, @2, $2, 0));
                                          add_kids_of($$, $3); }
| "optimizer" error setting_lines       { $$ = NULL; yyerrok; }
| "optimizer" error                     { $$ = NULL; yyerrok; }
| "frozen" patterns                     { $$ = NAMED(SETTING, @$, @1, "frozen", 2, NULL, $2); }

data_block: "{" data_lines "}"          { $$ = $2; }
data_lines:
  %empty                                { $$ = MAKE(DATA, @$, NULL, 0); }
| data_lines data_line END              { $$ = add_all($1, $2, @$); }
| data_lines error END                  { $$ = $1; yyerrok; }
data_line: names "=" expr               { $$ = MAKE(ASSIGN, @$, NULL, 2, $1, $3); }

evaluate_block: "{" evaluate_lines "}"  { $$ = $2; }
evaluate_lines:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| evaluate_lines evaluate_line END      { $$ = add_all($1, $2, @$); }
| evaluate_lines error END              { $$ = $1; yyerrok; }
evaluate_line:
  setting
| "data" data_block                     { $$ = $2; $$->span = @$; }
| "data" error data_block               { $$ = NULL; yyerrok; }
| "data" error                          { $$ = NULL; yyerrok; }

files_block: "{" files_lines "}"        { $$ = $2; }
files_lines:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| files_lines files_line END            { $$ = add_all($1, $2, @$); }
| files_lines error END                 { $$ = $1; yyerrok; }
files_line:
  pattern "=" expr                      { $$ = MAKE(FILE_MAP, @$, NULL, 5, $1, $3, NULL, NULL, NULL); }
| pattern "=" expr "transpose"          { $$ = MAKE(FILE_MAP, @$, NULL, 5, $1, $3, NULL, NULL, transpose_node(@4)); }
| pattern "=" expr "as" shape           { $$ = MAKE(FILE_MAP, @$, NULL, 5, $1, $3, $5, NULL, NULL); }
| pattern "=" expr "as" shape "transpose"
                                        { $$ = MAKE(FILE_MAP, @$, NULL, 5, $1, $3, $5, NULL, transpose_node(@6)); }
| pattern "=" expr "as" shape "->" shape { $$ = MAKE(FILE_MAP, @$, NULL, 5, $1, $3, $5, $7, NULL); }
| "ignore" STRING                       { $$ = NAMED(SETTING, @$, @1, "ignore", 2, MAKE(STRING, @2, $2, 0), NULL); }
| "optional" NAME STRING                { $$ = optional_node(s, @$, @2, $2, @3, $3); }
shape: "[" size_list "]"                { $$ = $2; $$->span = @$; }

cluster_block: "{" cluster_lines "}"    { $$ = $2; }
cluster_lines:
  %empty                                { $$ = MAKE(LIST, @$, NULL, 0); }
| cluster_lines cluster_line END        { $$ = add_all($1, $2, @$); }
| cluster_lines error END               { $$ = $1; yyerrok; }
cluster_line:
  "hosts" count "," quantity            { $$ = NAMED(SETTING, @$, @1, "hosts", 1,
                                                     MAKE(LIST, span_join(@2, @4), NULL, 2, $2, bytes(s, $4))); }
| "link" NAME quantity quantity         { $$ = link_node(s, @$, @2, $2, $3, $4); }

quantity: NUMBER unit                   { $$ = quantity_node(s, @$, $1, $2); }
unit:
  NAME
| NAME "/" NAME                         { $$ = intern(mem_printf("%.100s/%.100s", $1, $3)); }
%%

int flow_lex(FLOW_STYPE *value, FLOW_LTYPE *at, struct scan *s)
{
    struct token t = scan_next(s);
    value->text = t.text;
    *at = t.span;
    return t.kind;
}

static void flow_error(const struct span *at, struct scan *s, const char *text)
{
    scan_give_up(s, *at, "this is nested too deeply");  /* bison calls it for nothing but a full stack */
}

static int yyreport_syntax_error(const yypcontext_t *context, struct scan *s)
{
    enum { MOST = 64 };
    yysymbol_kind_t symbols[MOST];
    const char *names[MOST];
    int n = yypcontext_expected_tokens(context, symbols, MOST);
    for (int i = 0; i < n; i++)
        names[i] = yysymbol_name(symbols[i]);
    syntax_error(s, names, n < 0 ? 0 : n);
    return 0;
}

import type { ErrorCodeInfo } from './code-info.ts';

/** Codes of diagnostics: an author's mistakes in a spec, each reported with its place. Part of `ERROR_CODES`. */
export const SPEC_CODES = {
  'spec/syntax': author(
    'The spec is not valid YAML or JSON.',
    'Fix the place that the message names; indentation and quotes are the usual causes.',
  ),
  'spec/definition': author(
    'A definition in TypeScript or JavaScript cannot be bundled, throws or does not finish when it is loaded, or has no definition as its default export.',
    'Correct the code at the place that the message names; write `export default defineWorkflow({ … })`.',
  ),
  'spec/too-large': author(
    'The spec, or the plan compiled from it, is larger than a run may carry.',
    'Split the spec into several, or let commands read large data from files.',
  ),
  'spec/duplicate-key': author('A mapping names the same key twice.', 'Keep one of them.'),
  'spec/unknown-key': author(
    'A key is not part of the grammar and has no effect; reported as a warning.',
    'Fix its spelling (the message may suggest one) or remove it.',
  ),
  'spec/wrong-key': author(
    'A key does not exist here but clearly means one that does. Ignoring it would change the run.',
    'Write the key that the message names; see [the list](mistaken-keys.md).',
  ),
  'spec/missing-key': author('A required key is missing.', 'Add the key.'),
  'spec/wrong-type': author(
    'A value has the wrong type for its key.',
    'Write a value of the type that the message names.',
  ),
  'spec/bad-value': author('A value has the right type but is not allowed.', 'Use a value that the message allows.'),
  'spec/unsupported': author(
    'The spec uses something that this version does not support yet. It is a warning if it cannot change the result.',
    'Remove it, or use what the message offers instead.',
  ),
  'spec/bad-expression': author(
    'A condition (`when`) or an expression in a placeholder cannot be read, names something that does not exist, or has a value of the wrong type.',
    'Correct the place that the message names; [Conditions](spec.md#conditions) says what may be read.',
  ),
  'spec/bad-name': author(
    'A name has characters or a length that is not allowed.',
    'Use at most 64 characters: letters, digits, `.`, `_` and `-`, starting with a letter or digit.',
  ),
  'spec/duplicate-name': author('Two steps, boxes or outputs have the same name.', 'Rename one of them.'),
  'spec/unknown-step': author('A step names another step that does not exist.', 'Correct the name, or add the step.'),
  'spec/unknown-box': author('A pipeline stage names a box that does not exist.', 'Correct the name, or add the box.'),
  'spec/unknown-output': author(
    'An input names an output that no step or box has.',
    'Add it to `outputs` of the step or box that writes it, or correct the name.',
  ),
  'spec/ambiguous-output': author(
    'An input names an output that several steps or boxes have.',
    "Write `box.output` instead of only the output's name.",
  ),
  'spec/undeclared-secret': author(
    'A stage names a secret that the list `secrets` at the top level of the spec does not have.',
    'Add it to that list, or remove the list.',
  ),
  'spec/unused-secret': author(
    'The list `secrets` of a spec has a name that no stage names; reported as a warning.',
    'Name it in `secrets` of the stage that needs it, or remove it.',
  ),
  'spec/cycle': author(
    'Steps depend on each other in a cycle, so none of them can start.',
    'Remove one of the dependencies.',
  ),
  'spec/bad-part': author(
    'The spec that a stage uses (`uses`) cannot be read, is not a part of the same file, uses the spec itself, or cannot be a part of it.',
    'Do what the message says; [Parts](spec.md#parts) says what a part may have.',
  ),
  'spec/part-unused': author(
    'A part of a spec (`parts`) is used by no stage and never runs; reported as a warning.',
    'Write `uses` with its name in a stage, or remove it.',
  ),
  'spec/output-needed': author(
    "Several steps could be the run's result.",
    'Name one in `output_step`, or add a last step that depends on them.',
  ),
  'spec/box-unused': author(
    'A box is in no stage and never runs; reported as a warning.',
    'Add it to `stages`, or remove it.',
  ),
  'spec/box-used-twice': author('A box appears more than once in `stages`.', 'Keep one, or write a second box.'),
  'spec/producer-after-consumer': author(
    'A box takes data from a box that does not run before it.',
    'Move the producing box to an earlier stage.',
  ),
  'spec/shell-in-program': author(
    'A `program` contains a space or shell syntax. No shell reads it: the whole text is taken as the name of a file. Reported as a warning.',
    'Write `program: sh` and `args: [-c, "COMMAND"]`, or put the arguments into `args`.',
  ),
  'spec/bad-path': author(
    'A path cannot be used here, in the guest or on the host.',
    'Write the path as the message says.',
  ),
  'spec/path-conflict': author('Two mounts or inputs of the same VM overlap.', 'Give each its own folder.'),
  'spec/little-memory': author(
    'A VM has less memory than its image or the command line of its agents needs; reported as a warning.',
    'Raise `memory_mb` of its sandbox.',
  ),
  'spec/unordered-writers': author(
    'Steps or boxes that may run at the same time can write to the same mounted folder; reported as a warning.',
    'Order them, give each its own folder, or mount it `mode: ro` if it is only read.',
  ),
  'spec/attempts-share-vm': author(
    'The only step in the shared VM of a workflow has `retry`, and its attempts find what earlier ones left; reported as a warning.',
    'Give the step a `sandbox` of its own, so that each attempt has a new VM, or let the command expect such files.',
  ),
  'spec/isolation': author(
    'The isolation that the spec demands and its mode exclude each other.',
    'Remove `isolation`, or choose a real mode.',
  ),
  'spec/may-be-absent': author(
    'A stage takes data of another one that may end without it.',
    'Take it as an input with `optional: true`, take the data of a stage that succeeds whenever this one starts, or remove what lets this one start without it.',
  ),
  'spec/unknown-param': author(
    'A value refers to a parameter that the spec does not declare.',
    'Declare it under `params`, or correct the name.',
  ),
  'spec/missing-param': author(
    'A parameter without a default was given no value.',
    'Pass `--param name=value`, or declare a default.',
  ),
  'spec/undeclared-param': author(
    'A value was given for a parameter that the spec does not declare.',
    'Declare it under `params`, or do not pass the value.',
  ),
  'spec/bad-placeholder': author(
    'A `${{ … }}` placeholder is not valid, is used where placeholders are not allowed, or is in a script, which would read its value as code.',
    'Write `${{ params.name }}`, in program, args or env; give a script its values as variables; `$${{` is the literal text.',
  ),
} as const satisfies Record<`spec/${string}`, ErrorCodeInfo>;

export type SpecCode = keyof typeof SPEC_CODES;

function author(summary: string, remedy: string): ErrorCodeInfo & { readonly kind: 'author'; readonly retry: 'never' } {
  return { kind: 'author', retry: 'never', summary, remedy };
}

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
    'The spec, or the plan compiled from it, exceeds a size limit of runs.',
    'Split the spec into several specs, or let commands read large data from files.',
  ),
  'spec/duplicate-key': author('A mapping contains the same key twice.', 'Keep one of them.'),
  'spec/unknown-key': author(
    'A key is not part of the grammar and has no effect; reported as a warning.',
    'Correct the spelling (the message may suggest a key), or remove the key.',
  ),
  'spec/wrong-key': author(
    'A key is not allowed here, and the run would differ if Voidbox ignored it: it belongs elsewhere, or another key has this meaning.',
    'Write the key that the message names; see [the list](mistaken-keys.md).',
  ),
  'spec/missing-key': author('A required key is missing.', 'Add the key.'),
  'spec/wrong-type': author(
    'A value has the wrong type for its key.',
    'Write a value of the type that the message names.',
  ),
  'spec/bad-value': author('A value has the right type but is not allowed.', 'Use a value that the message allows.'),
  'spec/unsupported': author(
    'The spec uses a feature that this version does not support yet. It is a warning if the feature cannot change the result.',
    'Remove it, or use the alternative in the message.',
  ),
  'spec/bad-expression': author(
    'A condition (`when`) or an expression in a placeholder cannot be read, names something that does not exist, or has a value of the wrong type.',
    'Correct the place that the message names; [Conditions](spec.md#conditions) lists what an expression can read.',
  ),
  'spec/bad-name': author(
    'A name has characters or a length that is not allowed.',
    'Use at most 64 characters: letters, digits, `.`, `_` and `-`, starting with a letter or digit.',
  ),
  'spec/payload-code': author(
    'A trigger fills a parameter from a payload, and a stage has the parameter in code or in the address of a repository. `voidbox deploy` refuses it; otherwise it is a warning.',
    'Pass the value as a variable or as an argument of a program that reads it as data.',
  ),
  'spec/duplicate-name': author('Two steps, boxes, outputs or triggers have the same name.', 'Rename one of them.'),
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
    'A stage names a secret that is not in the list `secrets` at the top level of the spec.',
    'Add it to that list, or remove the list.',
  ),
  'spec/unused-secret': author(
    'The list `secrets` of a spec contains a name that no stage uses; reported as a warning.',
    'Add it to `secrets` of the stage that needs it, or remove it from the list.',
  ),
  'spec/cycle': author(
    'Steps depend on each other in a cycle, so none of them can start.',
    'Remove one of the dependencies.',
  ),
  'spec/bad-part': author(
    'The spec that a stage uses (`uses`) cannot be read, is not a part of the same file, uses the spec itself, or cannot be a part of it.',
    'Follow the message; [Parts](spec.md#parts) lists what a part can contain.',
  ),
  'spec/part-unused': author(
    'No stage uses a part of the spec (`parts`), so it never runs; reported as a warning.',
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
  'spec/box-used-twice': author('`stages` lists a box more than once.', 'Keep one entry, or add a second box.'),
  'spec/producer-after-consumer': author(
    'A box uses data of a box that does not run before it.',
    'Move the producing box to an earlier stage.',
  ),
  'spec/shell-in-program': author(
    'A `program` contains a space or shell syntax. It is not run by a shell: the whole text is the name of a file. Reported as a warning.',
    'Write `program: sh` and `args: [-c, "COMMAND"]`, or put the arguments into `args`.',
  ),
  'spec/bad-path': author(
    'A path cannot be used here, in the guest or on the host.',
    'Correct the path as the message says.',
  ),
  'spec/path-conflict': author('Two mounts or inputs of the same VM overlap.', 'Give each of them its own folder.'),
  'spec/little-memory': author(
    'A VM has less memory than its image or the command line of its agents needs; reported as a warning.',
    'Raise `memory_mb` of its sandbox.',
  ),
  'spec/unordered-writers': author(
    'Steps or boxes that may run at the same time can write to the same mounted folder; reported as a warning.',
    'Order them, give each its own folder, or mount it with `mode: ro` in those that only read it.',
  ),
  'spec/attempts-share-vm': author(
    'The only step in the shared VM of a workflow has `retry`, so each attempt finds the files of earlier attempts; reported as a warning.',
    'Give the step a `sandbox` of its own, so that each attempt has a new VM, or write the command so that it handles such files.',
  ),
  'spec/isolation': author(
    'The spec requires an isolation that its mode cannot provide.',
    'Remove `isolation`, or use `mode: auto`.',
  ),
  'spec/may-be-absent': author(
    'A stage uses data of another stage that may end without that data.',
    'Use it as an input with `optional: true`, use data of a stage that always succeeds before this one starts, or remove the key that makes the data optional (`when`, `continue_on_error`).',
  ),
  'spec/unknown-param': author(
    'A placeholder names a parameter that the spec does not declare.',
    'Declare it under `params`, or correct the name.',
  ),
  'spec/missing-param': author(
    'A parameter has neither a default nor a value from the run.',
    'Pass `--param name=value`, or declare a default.',
  ),
  'spec/undeclared-param': author(
    'The run sets a parameter that the spec does not declare.',
    'Declare it under `params`, or remove the value from the run.',
  ),
  'spec/bad-placeholder': author(
    'A `${{ … }}` placeholder is not valid, is in a place that allows no placeholders, or is in a script that would run its value as code.',
    'For a parameter, write `${{ params.name }}`; for an output of an earlier stage, `${{ stages.NAME.output }}` in `run`, `args`, `env` or `prompt`; for the literal text, `$${{`. Pass values to scripts of an interpreter as variables (`env`). See [Parameters](spec.md#parameters) and [Outputs in arguments and variables](spec.md#outputs-in-arguments-and-variables).',
  ),
} as const satisfies Record<`spec/${string}`, ErrorCodeInfo>;

export type SpecCode = keyof typeof SPEC_CODES;

function author(summary: string, remedy: string): ErrorCodeInfo & { readonly kind: 'author'; readonly retry: 'never' } {
  return { kind: 'author', retry: 'never', summary, remedy };
}

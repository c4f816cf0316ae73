import type { ErrorCodeInfo } from './code-info.ts';

/** Codes of diagnostics: an author's mistakes in a spec, each reported with its place. Part of `ERROR_CODES`. */
export const SPEC_CODES = {
  'spec/syntax': author(
    'The text is not YAML or JSON.',
    'Mend the place that the message names; indentation and quotes are the usual reasons.',
  ),
  'spec/too-large': author(
    'The text, or the plan it makes, is larger than a run may carry.',
    'Split the spec into several, or let commands read large data from files.',
  ),
  'spec/duplicate-key': author('A mapping names the same key twice.', 'Keep one of the two.'),
  'spec/unknown-key': author(
    'A key is not part of the grammar and has no effect; reported as a warning.',
    'Mend its spelling (the message suggests one) or take it out.',
  ),
  'spec/missing-key': author('A key that the grammar requires is not there.', 'Add the key.'),
  'spec/wrong-type': author(
    'A value has another shape than the key takes.',
    'Write a value of the shape that the message names.',
  ),
  'spec/bad-value': author(
    'A value has the right shape and is not one of those allowed.',
    'Take a value that the message allows.',
  ),
  'spec/unsupported': author(
    'The spec uses something that this version does not carry out yet. Where it has no effect on the result, it is a warning.',
    'Take it out, or use what the message offers instead.',
  ),
  'spec/bad-name': author(
    'A name has characters or a length that names may not have.',
    'Use letters, digits, `.`, `_`, `-`, a letter or digit first, at most 64 characters.',
  ),
  'spec/duplicate-name': author('Two steps, boxes or outputs have the same name.', 'Rename one of them.'),
  'spec/unknown-step': author('A step names another step that does not exist.', 'Mend the name, or add the step.'),
  'spec/unknown-box': author('A pipeline stage names a box that does not exist.', 'Mend the name, or add the box.'),
  'spec/unknown-output': author(
    'An input names an output that no step or box has.',
    'Add it to `outputs` of the step or box that makes it, or mend the name.',
  ),
  'spec/ambiguous-output': author(
    'An input names an output that several steps or boxes have.',
    "Write `box.output` instead of the output's name alone.",
  ),
  'spec/cycle': author('Steps wait for each other, so none of them can start.', 'Take one of the dependencies out.'),
  'spec/output-needed': author(
    "More than one step could give the run's result.",
    'Name one in `output_step`, or add a last step that depends on them.',
  ),
  'spec/box-unused': author(
    'A box is in no stage and never runs; reported as a warning.',
    'Add it to `stages`, or take it out.',
  ),
  'spec/box-used-twice': author(
    'A box stands in more than one place of `stages`.',
    'Keep one place, or write a second box.',
  ),
  'spec/producer-after-consumer': author(
    'A box takes data of a box that does not run before it.',
    'Move the producing box to an earlier stage.',
  ),
  'spec/bad-path': author(
    'A path is not one that the guest or the host can use here.',
    'Write a path as the message says.',
  ),
  'spec/path-conflict': author(
    'Two mounts or inputs of the same VM lie on or in each other.',
    'Give each a folder of its own.',
  ),
  'spec/unordered-writers': author(
    'Steps or boxes that may run at the same time can write to the same mounted folder; reported as a warning.',
    'Order them, give each a folder of its own, or mount it `mode: ro` where it is only read.',
  ),
  'spec/no-network': author(
    'The spec asks for network, which guests do not get until there is an egress policy.',
    'Take `network: true` out; bring data in with `mounts` or `inputs`.',
  ),
  'spec/isolation': author(
    'The isolation that the spec demands and its mode exclude each other.',
    'Take `isolation` out, or take a real mode.',
  ),
  'spec/unknown-param': author(
    'A text refers to a parameter that the spec does not declare.',
    'Declare it under `params`, or mend the name.',
  ),
  'spec/missing-param': author(
    'A parameter without a default was given no value.',
    'Give it with `--param name=value`, or write a default.',
  ),
  'spec/undeclared-param': author(
    'A value was given for a parameter that the spec does not declare.',
    'Declare it under `params`, or leave the value out.',
  ),
  'spec/bad-placeholder': author(
    'A `${{ … }}` is not one that can be filled in, or stands where none may stand.',
    'Write `${{ params.name }}`, in program, args or env; `$${{` is the literal text.',
  ),
} as const satisfies Record<`spec/${string}`, ErrorCodeInfo>;

export type SpecCode = keyof typeof SPEC_CODES;

function author(summary: string, remedy: string): ErrorCodeInfo & { readonly kind: 'author'; readonly retry: 'never' } {
  return { kind: 'author', retry: 'never', summary, remedy };
}

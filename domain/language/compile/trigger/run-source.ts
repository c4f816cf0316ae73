/** Compiles the end of a run of another deployment. */
import { findNameProblem } from '../../../delivery/deployment-name.ts';
import { RUN_DEFAULTS } from '../../../delivery/trigger-defaults.ts';
import { RUN_ENDS, type RunEnd, type RunSource } from '../../../delivery/trigger.ts';
import { PLAN_LIMITS } from '../../../plan/plan.ts';
import { quote } from '../../../units/quote.ts';
import type { Spec } from '../../read/spec.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Located } from '../../text/tree.ts';

type TriggerSpec = Spec['on'][number];

interface RunContext {
  /** The trigger in a message. */
  readonly what: string;
  readonly problems: Problems;
}

/** A stage, or a stage and its named output with a dot between them. */
const OUTPUT = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const MOST_OUTPUT_CHARACTERS = 2 * PLAN_LIMITS.nameLength + 1;

/** Returns null if a mistake in the source was reported. */
export function compileRun(
  { run, batch, input }: Pick<TriggerSpec, 'batch' | 'input'> & { readonly run: NonNullable<TriggerSpec['run']> },
  { what, problems }: RunContext,
): RunSource | null {
  const { of, states, output } = run;
  const errorsBefore = problems.errorCount();
  // The reader has already reported an empty name.
  const problem = of.value === '' ? null : findNameProblem(of.value);
  if (problem !== null)
    problems.error(
      'spec/bad-value',
      of.at,
      `\`run.of\` of ${what} is ${quote(of.value)}, which cannot name a deployment: ${problem}`,
      'write a name that `voidbox deployments` lists',
    );
  const isState = (text: string): text is RunEnd => (RUN_ENDS as readonly string[]).includes(text);
  for (const { value, at } of states ?? [])
    if (!isState(value))
      problems.error(
        'spec/bad-value',
        at,
        `\`run.state\` of ${what} is ${quote(value)}, in which no run ends${problems.suggest(value, RUN_ENDS)}`,
        `write ${RUN_ENDS.join(', ')}, one or several of them`,
      );
  if (output !== null) checkOutput(output, { batch, input }, { what, problems });
  if (problems.errorCount() > errorsBefore || of.value === '') return null;
  const wanted: readonly string[] = states?.map(({ value }) => value) ?? RUN_DEFAULTS.states;
  return {
    kind: 'run',
    of: of.value,
    states: RUN_ENDS.filter((state) => wanted.includes(state)),
    ...(output === null || output.value === '' ? {} : { output: output.value }),
  };
}

/** The other deployment may not exist yet, so its stages are not known here. */
function checkOutput(
  { value, at }: Located<string>,
  { batch, input }: Pick<TriggerSpec, 'batch' | 'input'>,
  { what, problems }: RunContext,
): void {
  if (value !== '' && (value.length > MOST_OUTPUT_CHARACTERS || !OUTPUT.test(value)))
    problems.error(
      'spec/bad-value',
      at,
      `\`run.output\` of ${what} is ${quote(value)}, which names no output`,
      'write the name of a stage of the other deployment, or `STAGE.OUTPUT`; `voidbox artifacts RUN` lists them',
    );
  const other = input === null ? (batch === null ? null : '`batch`') : '`input`';
  if (other !== null)
    problems.error(
      'spec/bad-value',
      at,
      `${what} has \`run.output\` and ${other}, and a run has at most one input`,
      `remove \`run.output\` or ${other}`,
    );
}

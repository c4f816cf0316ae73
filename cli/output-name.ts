import { nearest } from '../domain/spec/suggest.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import type { StageOutput } from '../store/run-outputs.ts';
import type { RunView, StageState } from '../store/run-view.ts';
import { type CliError, usageError } from './cli-error.ts';
import { shownRunId, typedRunId } from './run-id.ts';

/** Stages of a plan with the outputs that they declare. */
export interface DeclaredOutputs {
  readonly stage: string;
  readonly names: readonly string[];
}

/** As it can be typed: `tables` where only one stage has it, else `build.tables`; a stage's own output is named after it. */
export function shownOutput({ stage, name }: Pick<StageOutput, 'stage' | 'name'>): string {
  return sanitizeLine(name === null ? stage : `${stage}.${name}`);
}

/**
 * The output that `text` names: `stage.output`, an output's name that one stage alone has, or a stage.
 * @throws CliError that says why there is none
 */
export function findOutput(
  text: string,
  outputs: readonly StageOutput[],
  declared: readonly DeclaredOutputs[],
  view: RunView,
): StageOutput {
  const exact = outputs.find(({ stage, name }) => name !== null && `${stage}.${name}` === text);
  if (exact !== undefined) return exact;
  const named = outputs.filter(({ name }) => name === text);
  // A stage that has not ended may have it too: a name that means one today means the same tomorrow.
  const owners = new Set([
    ...named.map(({ stage }) => stage),
    ...declared.filter(({ names }) => names.includes(text)).map(({ stage }) => stage),
  ]);
  if (named[0] !== undefined && owners.size === 1) return named[0];
  if (owners.size > 1)
    throw usageError(
      `${owners.size} stages of run ${shownRunId(view.runId)} have an output \`${sanitizeLine(text)}\``,
      `Name one: ${[...owners].map((stage) => shownOutput({ stage, name: text })).join(', ')}`,
    );
  const own = outputs.find(({ stage, name }) => name === null && stage === text);
  if (own !== undefined) return own;
  const awaited = declared.find(
    ({ stage, names }) => stage === text || names.some((name) => name === text || `${stage}.${name}` === text),
  );
  throw awaited === undefined ? unknown(text, outputs, declared, view) : notThere(text, awaited.stage, view);
}

const WHY: Readonly<Record<Exclude<StageState, 'succeeded'>, string>> = {
  waiting: 'never started',
  running: 'was cut off',
  asking: 'was cut off',
  sleeping: 'was cut off',
  retrying: 'was cut off',
  failed: 'failed',
  cancelled: 'was cancelled',
  skipped: 'was skipped',
  passed: 'was passed over',
};

function notThere(text: string, stage: string, view: RunView): CliError {
  const state = view.stages.find(({ id }) => id === stage)?.state ?? 'waiting';
  const shown = `\`${sanitizeLine(text)}\``;
  const of = `stage ${sanitizeLine(stage)}`;
  if (['waiting', 'running', 'asking', 'sleeping', 'retrying'].includes(state) && view.outcome === null)
    return usageError(
      `${shown} is not there yet: ${of} has not ended (${state})`,
      `Wait for it: voidbox logs -f ${typedRunId(view.runId)} --stage ${sanitizeLine(stage)}`,
    );
  return usageError(
    state === 'succeeded'
      ? `${shown} does not exist: ${of} succeeded and left none`
      : `${shown} does not exist: ${of} ${WHY[state]}, and only a stage that succeeds leaves outputs`,
    `See why: voidbox status ${typedRunId(view.runId)}`,
  );
}

function unknown(
  text: string,
  outputs: readonly StageOutput[],
  declared: readonly DeclaredOutputs[],
  view: RunView,
): CliError {
  const names = new Set([
    ...outputs.map(shownOutput),
    ...declared.flatMap(({ stage, names: of }) => of.map((name) => shownOutput({ stage, name }))),
  ]);
  const bare = declared.flatMap(({ names: of }) => of);
  const meant = nearest(text, [...bare, ...names]);
  return usageError(
    `run ${shownRunId(view.runId)} has no output \`${sanitizeLine(text)}\``,
    `${meant === null ? '' : `Did you mean ${sanitizeLine(meant)}?\n`}Its outputs: voidbox artifacts ${typedRunId(view.runId)}`,
  );
}

import { findNearest } from '../../domain/language/text/suggest.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { StageOutput } from '../../store/run-outputs.ts';
import type { RunView, StageState } from '../../store/run-view.ts';
import { type AppError, createUsageError } from '../../app/app-error.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { formatRunId, renderCommand, quoteStageName } from '../../app/runs/run-id.ts';

/** Stages of a plan with the outputs that they declare. */
export interface DeclaredOutputs {
  readonly stage: string;
  readonly names: readonly string[];
  /** The part that is done for each item, to which the stage belongs; absent: it is done once. */
  readonly of?: string | undefined;
}

/** Names in a message. */
const MOST_NAMES = 10;

/**
 * Returns the name that a user can type: `tables` if only one stage has it, else `build.tables`. A stage's own output
 * has its name.
 */
export function formatOutputName({ label, name }: Pick<StageOutput, 'label' | 'name'>): string {
  return sanitizeLine(name === null ? label : `${label}.${name}`);
}

/**
 * Finds the output that `text` names: `stage.output`, an output's name that only one stage has, or a stage. The name of
 * a stage of an item includes the item: `fixes[1].work`.
 * @throws AppError that explains why no output has this name
 */
export function findOutput(
  text: string,
  outputs: readonly StageOutput[],
  declared: readonly DeclaredOutputs[],
  view: RunView,
): StageOutput {
  const exact = outputs.find(({ label, name }) => name !== null && `${label}.${name}` === text);
  if (exact !== undefined) return exact;
  const named = outputs.filter(({ name }) => name === text);
  // A stage that has not ended may have it too: a name that means one today means the same tomorrow.
  const owners = new Set([
    ...named.map(({ label }) => label),
    ...declared.filter(({ names, of }) => of === undefined && names.includes(text)).map(({ stage }) => stage),
  ]);
  if (named[0] !== undefined && owners.size === 1) return named[0];
  if (owners.size > 1)
    throw createUsageError(
      `${owners.size} stages of run ${formatRunId(view.runId)} have an output \`${sanitizeLine(text)}\``,
      `Name one: ${listNames([...owners].map((label) => formatOutputName({ label, name: text })))}`,
    );
  const own = outputs.find(({ label, name }) => name === null && label === text);
  if (own !== undefined) return own;
  const awaited = declared.find(
    ({ stage, names }) => stage === text || names.some((name) => name === text || `${stage}.${name}` === text),
  );
  if (awaited?.of !== undefined) throw withoutItem(text, awaited.stage, awaited.of, outputs, view);
  if (awaited !== undefined) throw createAbsentError(text, awaited.stage, view);
  throw text.includes('[')
    ? createUnknownItemError(text, outputs, view)
    : createUnknownError(text, outputs, declared, view);
}

function listNames(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return `${names.slice(0, MOST_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
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

function createAbsentError(text: string, stage: string, view: RunView): AppError {
  const state = view.stages.find(({ id }) => id === stage)?.state ?? 'waiting';
  const shown = `\`${sanitizeLine(text)}\``;
  const of = `stage ${sanitizeLine(stage)}`;
  if (['waiting', 'running', 'asking', 'sleeping', 'retrying'].includes(state) && view.outcome === null)
    return createUsageError(
      `${shown} is not there yet: ${of} has not ended (${state})`,
      `Wait for it: ${renderCommand('logs -f', view.runId, { options: `--stage ${quoteStageName(stage)}` })}`,
    );
  return createUsageError(
    state === 'succeeded'
      ? `${shown} does not exist: ${of} succeeded without this output`
      : `${shown} does not exist: ${of} ${WHY[state]}, and only a stage that succeeds leaves outputs`,
    `See why: voidbox status ${quoteRunId(view.runId)}`,
  );
}

function withoutItem(
  text: string,
  stage: string,
  of: string,
  outputs: readonly StageOutput[],
  view: RunView,
): AppError {
  const labels = [...new Set(outputs.filter((output) => output.stage === stage).map(({ label }) => label))];
  return createUsageError(
    `\`${sanitizeLine(text)}\` names no item: stage ${sanitizeLine(stage)} runs for each item of ${sanitizeLine(of)}`,
    labels.length === 0
      ? `None of its items has an output: voidbox status ${quoteRunId(view.runId)}`
      : `Name one: ${listNames(labels.map(quoteStageName))}`,
  );
}

function createUnknownItemError(text: string, outputs: readonly StageOutput[], view: RunView): AppError {
  const labels = [...new Set(outputs.filter(({ instance }) => instance.length > 0).map(({ label }) => label))];
  const given = view.stages.find(({ id, givenBy }) => givenBy !== null && text.startsWith(`${id}[`));
  if (given !== undefined)
    return createUsageError(
      `the items of ${sanitizeLine(given.id)} ran in run ${formatRunId(given.givenBy!)}`,
      `Its outputs: voidbox artifacts ${quoteRunId(given.givenBy!)}`,
    );
  return createUsageError(
    `run ${formatRunId(view.runId)} has no output \`${sanitizeLine(text)}\`: there is no such item, or its stage has not ended or has no such output`,
    labels.length === 0
      ? `Its outputs: voidbox artifacts ${quoteRunId(view.runId)}`
      : `Stages of items with outputs: ${listNames(labels.map(quoteStageName))}`,
  );
}

function createUnknownError(
  text: string,
  outputs: readonly StageOutput[],
  declared: readonly DeclaredOutputs[],
  view: RunView,
): AppError {
  const names = new Set([
    ...outputs.map(formatOutputName),
    ...declared.flatMap(({ stage, names: of }) => of.map((name) => formatOutputName({ label: stage, name }))),
  ]);
  const bare = declared.flatMap(({ names: of }) => of);
  const meant = findNearest(text, [...bare, ...names]);
  return createUsageError(
    `run ${formatRunId(view.runId)} has no output \`${sanitizeLine(text)}\``,
    `${meant === null ? '' : `Did you mean ${sanitizeLine(meant)}?\n`}Its outputs: voidbox artifacts ${quoteRunId(view.runId)}`,
  );
}

/** Finds the stage whose changes of a run are meant, and the folder of its workspace. */
import type { DataRef, Plan, StagePlan } from '../../domain/plan/plan.ts';
import { PARTIAL_OUTPUTS, WORKSPACE_OUTPUTS, findWorkspaceGiver } from '../../domain/plan/workspace.ts';
import { formatStageName } from '../../domain/run/instance.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import type { StageOutput } from '../../store/run-outputs.ts';
import { type AppError, createUsageError } from '../app-error.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { formatRunId, quoteStageName } from './run-id.ts';

export interface LeftChanges {
  /** As people write it: `fix`, or `fixes[1].work` for a stage of an item. */
  readonly stage: string;
  /** Its agent's attempt failed or was interrupted. */
  readonly isPartial: boolean;
  readonly base: DataRef;
  readonly bundle: DataRef;
  readonly patch: DataRef;
  /**
   * The folder that the workspace was packed from; null: it came from an address, the plan cannot be read, or the
   * run is on another machine.
   */
  readonly folder: string | null;
}

export interface ChangesChoice {
  /** Null: the stage whose changes no other stage uses. */
  readonly stage: string | null;
  /** Changes of agents that did not succeed, instead of results. */
  readonly isPartial: boolean;
}

/** Stages in a message. */
const MOST_STAGES = 10;

/**
 * Finds the changes of the named stage. Without a name it finds the stage whose changes no other stage uses, or any
 * stage if no stage changed a file.
 * @throws AppError if there are no such changes, or if several stages left some
 */
export function changesOf(
  runId: string,
  plan: Plan | null,
  outputs: readonly StageOutput[],
  { stage, isPartial }: ChangesChoice,
): LeftChanges {
  const names = isPartial ? PARTIAL_OUTPUTS : WORKSPACE_OUTPUTS;
  const ofKind = outputs.filter((output) => (output.isPartial === true) === isPartial);
  const patches = ofKind.filter(({ name }) => name === names.patch);
  const chosen = stage ?? selectLastChanges(runId, plan, patches, { outputs, isPartial });
  const refOf = (name: string): DataRef => {
    const found = ofKind.find((output) => output.label === chosen && output.name === name);
    if (found !== undefined) return found.ref;
    const others = listStages(patches.map(({ label }) => label));
    throw createUsageError(
      `stage ${sanitizeLine(chosen)} of run ${formatRunId(runId)} left no ${isPartial ? 'partial ' : ''}changes: ${explainMissingChanges(plan, chosen, outputs, isPartial)}`,
      hasPartial(outputs, chosen) && !isPartial
        ? `Apply them: voidbox apply --partial --stage ${quoteStageName(chosen)} ${quoteRunId(runId)}`
        : patches.length === 0
          ? null
          : `Stages with changes: ${others}`,
    );
  };
  const patch = refOf(names.patch);
  const { stage: id } = patches.find(({ label }) => label === chosen)!;
  return {
    stage: chosen,
    isPartial,
    bundle: refOf(names.bundle),
    base: refOf(names.base),
    patch,
    folder: folderOf(plan, id),
  };
}

/** Labels of stages whose agents left partial changes. */
export function partialStages(outputs: readonly StageOutput[]): readonly string[] {
  return outputs.flatMap(({ label, name }) => (name === PARTIAL_OUTPUTS.patch ? [label] : []));
}

export function listStages(labels: readonly string[]): string {
  const more = labels.length - MOST_STAGES;
  return `${labels.slice(0, MOST_STAGES).map(quoteStageName).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function hasPartial(outputs: readonly StageOutput[], label: string): boolean {
  return partialStages(outputs).includes(label);
}

function selectLastChanges(
  runId: string,
  plan: Plan | null,
  patches: readonly StageOutput[],
  { outputs, isPartial }: { readonly outputs: readonly StageOutput[]; readonly isPartial: boolean },
): string {
  if (patches.length === 0) throw createNoChangesError(runId, outputs, isPartial);
  const byId = new Map((plan?.stages ?? []).map((stage) => [stage.id, stage]));
  // A stage of an item uses the workspace of a stage of the same item.
  const handedOn = new Set(
    patches.flatMap(({ stage, instance }) => {
      const taker = byId.get(stage);
      const giver = taker === undefined ? null : findWorkspaceGiver(taker);
      return giver === null ? [] : [formatStageName(giver, instance)];
    }),
  );
  const ends = patches.filter(({ label }) => !handedOn.has(label));
  const last = ends.filter(({ ref }) => ref.sizeBytes > 0);
  if (last.length <= 1) return (last[0] ?? ends[0] ?? patches[0]!).label;
  const labels = last.map(({ label }) => label);
  throw createUsageError(
    `${last.length} stages of run ${formatRunId(runId)} left ${isPartial ? 'partial ' : ''}changes`,
    `Name one: ${labels
      .slice(0, MOST_STAGES)
      .map((label) => `--stage ${quoteStageName(label)}`)
      .join(', ')}${labels.length > MOST_STAGES ? ` and ${labels.length - MOST_STAGES} more` : ''}`,
  );
}

function createNoChangesError(runId: string, outputs: readonly StageOutput[], isPartial: boolean): AppError {
  if (isPartial)
    return createUsageError(
      `no agent of run ${formatRunId(runId)} left partial changes`,
      `Only agents with \`workspace\` that changed files and did not succeed leave partial changes: voidbox status ${quoteRunId(runId)}`,
    );
  const partial = partialStages(outputs);
  return createUsageError(
    `no stage of run ${formatRunId(runId)} left changes of a workspace`,
    partial.length > 0
      ? `Agents that did not succeed left partial changes (${listStages(partial)}): voidbox apply --partial ${quoteRunId(runId)}`
      : `Only stages with \`workspace\` that succeeded leave changes: voidbox status ${quoteRunId(runId)}`,
  );
}

function explainMissingChanges(
  plan: Plan | null,
  label: string,
  outputs: readonly StageOutput[],
  isPartial: boolean,
): string {
  if (!isPartial && hasPartial(outputs, label)) return 'its agent did not succeed, so its changes are partial';
  if (isPartial && outputs.some((output) => output.label === label && output.name === WORKSPACE_OUTPUTS.patch))
    return 'it succeeded, so its changes are not partial';
  const id = label.replaceAll(ITEM, '');
  const stage = plan?.stages.find((each) => each.id === id);
  if (plan !== null && stage === undefined) return 'the run has no such stage';
  if (stage !== undefined && stage.workspace === undefined) return 'it has no workspace';
  if (stage?.of !== undefined && id === label) return `it runs for each item of ${stage.of}: name one`;
  if (isPartial) return 'its agent changed nothing, or has not ended';
  return id === label ? 'it has not succeeded' : 'there is no such item, or it has not succeeded';
}

/** The number of an item within the name of a stage. */
const ITEM = /(?:#\d+)?\[\d+\]/g;

function folderOf(plan: Plan | null, id: string): string | null {
  const byId = new Map((plan?.stages ?? []).map((stage) => [stage.id, stage]));
  let stage: StagePlan | undefined = byId.get(id);
  while (stage !== undefined) {
    const giver: string | null = findWorkspaceGiver(stage);
    if (giver === null) break;
    stage = byId.get(giver);
  }
  const from = stage?.workspace?.from;
  return from?.kind === 'folder' && from.source.kind === 'host' ? from.source.path : null;
}

/**
 * `voidbox/RUN/STAGE`, for partial changes `voidbox/RUN/STAGE.partial`. Hyphens replace characters that git forbids in
 * branches, because ids of runs are any text.
 */
export function branchOf(runId: string, { stage, isPartial }: Pick<LeftChanges, 'stage' | 'isPartial'>): string {
  return `voidbox/${branchPart(runId)}/${branchPart(isPartial ? `${stage}.partial` : stage)}`;
}

/** The limit of bytes for a part: git makes a file of its name, followed by `.lock`. */
const PART_BYTES = 200;

function branchPart(text: string): string {
  let plain = text.replaceAll(/[^\p{L}\p{N}._-]/gu, '-').replaceAll('..', '.-');
  while (countUtf8Bytes(plain) > PART_BYTES) plain = [...plain].slice(0, -1).join('');
  return plain
    .replace(/^[.-]/, '_')
    .replace(/\.$/, '-')
    .replace(/\.lock$/i, '-lock');
}

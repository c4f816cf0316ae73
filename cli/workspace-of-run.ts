/** Which stage's changes of a run are meant, and where they came from. */
import type { DataRef, Plan, StagePlan } from '../domain/plan/plan.ts';
import { WORKSPACE_OUTPUTS, workspaceGiver } from '../domain/plan/workspace.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import { utf8Length } from '../domain/units/utf8.ts';
import type { StageOutput } from '../store/run-outputs.ts';
import { usageError } from './cli-error.ts';

export interface LeftChanges {
  readonly stage: string;
  readonly base: DataRef;
  readonly bundle: DataRef;
  readonly patch: DataRef;
  /** The folder that the workspace was packed from; null: it came from an address, or the plan cannot be read. */
  readonly folder: string | null;
}

/**
 * Of the named stage, or of the one with changes that no other stage went on with; where none changed anything, of any.
 * @throws CliError where there is none, or where there are several
 */
export function changesOf(
  run: string,
  plan: Plan | null,
  outputs: readonly StageOutput[],
  stage: string | null,
): LeftChanges {
  const patches = outputs.filter(({ name }) => name === WORKSPACE_OUTPUTS.patch);
  const left = new Set(patches.map((output) => output.stage));
  const changed = new Set(patches.filter(({ ref }) => ref.sizeBytes > 0).map((output) => output.stage));
  const chosen = stage ?? onlyLast(run, plan, left, changed);
  const refOf = (name: string): DataRef => {
    const found = outputs.find((output) => output.stage === chosen && output.name === name);
    if (found !== undefined) return found.ref;
    throw usageError(
      `stage ${sanitizeLine(chosen)} of run ${run} left no changes: ${whyNone(plan, chosen)}`,
      left.size === 0 ? null : `Stages that did: ${[...left].map(sanitizeLine).join(', ')}`,
    );
  };
  const { base, bundle, patch } = WORKSPACE_OUTPUTS;
  return {
    stage: chosen,
    bundle: refOf(bundle),
    base: refOf(base),
    patch: refOf(patch),
    folder: folderOf(plan, chosen),
  };
}

function onlyLast(run: string, plan: Plan | null, left: ReadonlySet<string>, changed: ReadonlySet<string>): string {
  if (left.size === 0)
    throw usageError(
      `no stage of run ${run} left changes of a workspace`,
      'Only stages with `workspace` that succeeded do: voidbox status RUN',
    );
  const takers = (plan?.stages ?? []).filter(({ id }) => left.has(id));
  const handedOn = new Set(takers.map(workspaceGiver));
  const ends = [...left].filter((id) => !handedOn.has(id));
  const last = ends.filter((id) => changed.has(id));
  if (last.length <= 1) return last[0] ?? ends[0]!;
  throw usageError(
    `${last.length} stages of run ${run} left changes`,
    `Name one: ${last.map((id) => `--stage ${sanitizeLine(id)}`).join(', ')}`,
  );
}

function whyNone(plan: Plan | null, id: string): string {
  const stage = plan?.stages.find((each) => each.id === id);
  if (plan !== null && stage === undefined) return 'the run has no such stage';
  return stage !== undefined && stage.workspace === undefined ? 'it has no workspace' : 'it has not succeeded';
}

function folderOf(plan: Plan | null, id: string): string | null {
  const byId = new Map((plan?.stages ?? []).map((stage) => [stage.id, stage]));
  let stage: StagePlan | undefined = byId.get(id);
  while (stage !== undefined) {
    const giver: string | null = workspaceGiver(stage);
    if (giver === null) break;
    stage = byId.get(giver);
  }
  const from = stage?.workspace?.from;
  return from?.kind === 'folder' && from.source.kind === 'host' ? from.source.path : null;
}

/** `voidbox/RUN/STAGE`, with what no branch can have as hyphens: ids of runs are any text. */
export function branchOf(runId: string, stage: string): string {
  return `voidbox/${branchPart(runId)}/${branchPart(stage)}`;
}

/** Bytes of a part: git makes a file of its name, with `.lock` behind it. */
const PART_BYTES = 200;

function branchPart(text: string): string {
  let plain = text.replaceAll(/[^\p{L}\p{N}._-]/gu, '-').replaceAll('..', '.-');
  while (utf8Length(plain) > PART_BYTES) plain = [...plain].slice(0, -1).join('');
  return plain
    .replace(/^[.-]/, '_')
    .replace(/\.$/, '-')
    .replace(/\.lock$/i, '-lock');
}

/** What a workspace is called where its stage leaves it, and who finds it. */
import type { StagePlan, WorkspacePlan } from './plan.ts';

/** Outputs of a stage with a workspace, beside those that its author names. */
export const WORKSPACE_OUTPUTS = {
  /** What it started from: a commit with its history, and uncommitted changes as a commit on top. */
  base: 'base.bundle',
  /** What differs from that, for `git apply`. */
  patch: 'changes.patch',
  /** The same as commits; empty where there are none. */
  bundle: 'changes.bundle',
} as const;

/** The same of an agent that failed or was interrupted, in the `partial` of its result. */
export const PARTIAL_OUTPUTS = {
  base: WORKSPACE_OUTPUTS.base,
  patch: 'partial.patch',
  bundle: 'partial.bundle',
} as const;

/** What a stage finds that goes on with the workspace of an earlier one. */
export const HANDED_ON: readonly string[] = [WORKSPACE_OUTPUTS.base, WORKSPACE_OUTPUTS.bundle];

const NAMES: ReadonlySet<string> = new Set(Object.values(WORKSPACE_OUTPUTS));

/** Whether an author's output cannot have this name in a stage with a workspace. */
export function isWorkspaceOutput(name: string): boolean {
  return NAMES.has(name) || name === PARTIAL_OUTPUTS.patch || name === PARTIAL_OUTPUTS.bundle;
}

/** All that a stage leaves by a name when it succeeds. */
export function outputNamesOf({ outputs, workspace }: Pick<StagePlan, 'outputs' | 'workspace'>): readonly string[] {
  const leavesChanges = workspace !== undefined && workspace.changes !== 'none';
  return [...outputs.map(({ name }) => name), ...(leavesChanges ? NAMES : [])];
}

/** The stage whose workspace this one goes on with; null: it has none, or one of its own. */
export function workspaceGiver({ workspace }: Pick<StagePlan, 'workspace'>): string | null {
  return workspace?.from.kind === 'stage' ? workspace.from.stage : null;
}

/** The working folder of a stage with a workspace; null: the stage has no workspace. */
export function findWorkingFolder({ workspace }: Pick<StagePlan, 'workspace'>): string | null {
  if (workspace === undefined) return null;
  const { guestPath, subfolder } = workspace;
  return subfolder === undefined ? guestPath : `${guestPath}/${subfolder}`;
}

/** For people: `workspace ./app (main) at /workspace/repository`. */
export function describeWorkspace({ from, guestPath, subfolder, changes }: WorkspacePlan): string {
  const inner = subfolder === undefined ? '' : `, in ${subfolder}`;
  return `workspace ${describeSource(from)} at ${guestPath}${inner}${changes === 'none' ? ', leaves no changes' : ''}`;
}

function describeSource(from: WorkspacePlan['from']): string {
  switch (from.kind) {
    case 'folder':
      return `${from.source.path}${from.ref === null ? '' : ` (${from.ref})`}${from.includeDirty ? ', uncommitted changes included,' : ''}`;
    case 'url':
      return `${from.url}${from.ref === null ? '' : ` (${from.ref})`}`;
    case 'stage':
      return `of ${from.stage}`;
  }
}

/** What begins with a minus would be an option, and what has a colon two names. */
const REF = /^(?!-)[^\s:?*[\\\p{Cc}]+$/u;

export function isRefName(ref: string): boolean {
  return REF.test(ref);
}

/** Why no workspace comes from this address; null: one may. A plan is kept and shown, so it holds no password. */
export function addressProblem(url: string): string | null {
  if (!/^https:\/\/[^\s/?#]/.test(url) || /[\s\p{Cc}]/u.test(url)) return 'does not begin with https:// and a host';
  if (/^https:\/\/[^/?#]*@/.test(url)) return 'has a user or a password in it';
  return /^https:\/\/[^/?#]+\/+[^/?#]/.test(url) ? null : 'has no path, and so names no repository';
}

/** The names of a workspace's outputs, and helpers for stages with a workspace. */
import type { SandboxPlan, StagePlan, WorkspacePlan } from './plan.ts';

/** Outputs of a stage with a workspace, in addition to those that its author names. */
export const WORKSPACE_OUTPUTS = {
  /** The start of the workspace: a commit with its history, and uncommitted changes as a commit on top. */
  base: 'base.bundle',
  /** The changes since `base`, for `git apply`. */
  patch: 'changes.patch',
  /** The same changes as commits; empty if there are no changes. */
  bundle: 'changes.bundle',
} as const;

/** The same outputs of an agent that failed or was interrupted, in the `partial` of its result. */
export const PARTIAL_OUTPUTS = {
  base: WORKSPACE_OUTPUTS.base,
  patch: 'partial.patch',
  bundle: 'partial.bundle',
} as const;

/** The outputs that a later stage needs to continue a workspace. */
export const HANDED_ON: readonly string[] = [WORKSPACE_OUTPUTS.base, WORKSPACE_OUTPUTS.bundle];

const NAMES: ReadonlySet<string> = new Set(Object.values(WORKSPACE_OUTPUTS));

/** Whether a stage with a workspace reserves this name, so that no output of its author may have it. */
export function isWorkspaceOutput(name: string): boolean {
  return NAMES.has(name) || name === PARTIAL_OUTPUTS.patch || name === PARTIAL_OUTPUTS.bundle;
}

/** Returns the names of all outputs that a stage leaves when it succeeds. */
export function outputNamesOf({ outputs, workspace }: Pick<StagePlan, 'outputs' | 'workspace'>): readonly string[] {
  const leavesChanges = workspace !== undefined && workspace.changes !== 'none';
  return [...outputs.map(({ name }) => name), ...(leavesChanges ? NAMES : [])];
}

/** Returns the stage whose workspace this stage continues; null if it has no workspace or its own. */
export function findWorkspaceGiver({ workspace }: Pick<StagePlan, 'workspace'>): string | null {
  return workspace?.from.kind === 'stage' ? workspace.from.stage : null;
}

/**
 * Whether the image of the VM may have git. The image `base`, which is absent in plans, has no git: the host then writes
 * the files of the repository, and compares them afterwards.
 */
export function mayHaveGit({ mode, image, needs }: Pick<SandboxPlan, 'mode' | 'image' | 'needs'>): boolean {
  return mode === 'mock' || image !== undefined || needs?.image !== undefined;
}

/** Returns the working folder of a stage; null if the stage has no workspace. */
export function findWorkingFolder({ workspace }: Pick<StagePlan, 'workspace'>): string | null {
  if (workspace === undefined) return null;
  const { guestPath, subfolder } = workspace;
  return subfolder === undefined ? guestPath : `${guestPath}/${subfolder}`;
}

/** Describes a workspace for people: `workspace ./app (main) at /workspace/repository`. */
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

/** Without a leading minus, which git reads as an option, and without a colon, which separates two names. */
const REF = /^(?!-)[^\s:?*[\\\p{Cc}]+$/u;

export function isRefName(ref: string): boolean {
  return REF.test(ref);
}

/** The characters and parts that no name of a branch or tag has (`git check-ref-format`). */
const NOT_IN_REFS = /[\s~^:?*[\\\p{Cc}]|\.\.|@\{|\/\/|(?:^|\/)\.|\.lock(?:\/|$)|^[-/]|[/.]$|^@$/u;

/**
 * Whether a text is a hash, or a name that git allows for a branch or a tag. A value of a run must be one: git reads
 * more into other texts, such as an option, a range or a search.
 */
export function isPlainRef(ref: string): boolean {
  return ref !== '' && !NOT_IN_REFS.test(ref);
}

/**
 * Explains why a workspace cannot use this URL; null if it can. A plan is stored and shown, so a URL must not contain a
 * password.
 */
export function findAddressProblem(url: string): string | null {
  if (!/^https:\/\/[^\s/?#]/.test(url) || /[\s\p{Cc}]/u.test(url)) return 'does not begin with https:// and a host';
  if (/^https:\/\/[^/?#]*@/.test(url)) return 'has a user or a password in it';
  return /^https:\/\/[^/?#]+\/+[^/?#]/.test(url) ? null : 'has no path, and so names no repository';
}

/** Whether the text of `git` is a URL, and no folder. `git@host:path` is a short form of a URL. */
export function isGitAddress(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]*:\/\/|^[^/]+@[^/]+:/.test(text);
}

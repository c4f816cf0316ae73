/** Compiles the git repository in which a stage works. */
import { WORKSPACE_DEFAULTS } from '../../../plan/defaults.ts';
import { PLAN_LIMITS, type SandboxPlan, type StagePlan, type WorkspaceSource } from '../../../plan/plan.ts';
import {
  findAddressProblem,
  isGitAddress,
  isPlainRef,
  isRefName,
  isWorkspaceOutput,
  mayHaveGit,
} from '../../../plan/workspace.ts';
import { compileGuestPath, compileHostPath } from './sandbox.ts';
import { contains, ownFolderIn, toRelativePath } from '../../text/paths.ts';
import { hasStandIn } from '../../read/params.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { StageSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

type WorkspaceSpec = NonNullable<StageSpec['workspace']>;

interface WorkspaceContext {
  readonly what: string;
  /**
   * The stage whose workspace this stage continues; null: it names none, or one that does not exist, which is reported.
   */
  readonly giver: string | null;
  readonly baseDir: string | null;
  readonly fill: Filler;
  /** True if a parameter may lack its value, and then has a placeholder as its text. */
  readonly mayLackValues: boolean;
  readonly problems: Problems;
}

/** Returns an empty object for a stage without a workspace. */
export function compileWorkspace(
  stage: StageSpec,
  inputPaths: readonly string[],
  context: WorkspaceContext,
): Pick<StagePlan, 'workspace'> {
  const { workspace } = stage;
  if (workspace === null) return {};
  const { what, problems } = context;
  const guestPath =
    workspace.guestPath === null
      ? WORKSPACE_DEFAULTS.guestPath
      : compileGuestPath(workspace.guestPath, `the workspace of ${what}`, problems);
  refuseReserved(stage, what, problems);
  const from = compileSource(workspace, context);
  if (from === null || guestPath === null) return {};
  refuseOwnFolder(workspace, guestPath, what, problems);
  refuseOverlap(stage, guestPath, inputPaths, what, problems);
  const leaves = workspace.changes?.value === 'none' ? ({ changes: 'none' } as const) : {};
  const subfolder = compileSubfolder(workspace, context);
  return { workspace: { from, guestPath, ...(subfolder === null ? {} : { subfolder }), ...leaves } };
}

/** Returns null for the top folder, and also if the subfolder could not be read, which was reported. */
function compileSubfolder({ subfolder }: WorkspaceSpec, { what, fill, problems }: WorkspaceContext): string | null {
  if (subfolder === null) return null;
  const written = fill(subfolder);
  const path = toRelativePath(written);
  if (path !== null && path.length <= PLAN_LIMITS.referenceCharacters) return path === '.' ? null : path;
  problems.error(
    'spec/bad-path',
    subfolder.at,
    `\`subfolder\` of the workspace of ${what} is ${quote(written)}, which is not a path within the repository with at most ${PLAN_LIMITS.referenceCharacters} characters`,
    'write it from the top folder of the repository, such as packages/a',
  );
  return null;
}

function refuseReserved({ outputs }: StageSpec, what: string, problems: Problems): void {
  for (const { name } of outputs)
    if (isWorkspaceOutput(name.value))
      problems.error(
        'spec/duplicate-name',
        name.at,
        `an output of ${what} has the name ${quote(name.value)}, which its workspace uses`,
        'rename it',
      );
}

function refuseOwnFolder(workspace: WorkspaceSpec, guestPath: string, what: string, problems: Problems): void {
  const own = ownFolderIn(guestPath);
  if (own === null || workspace.guestPath === null) return;
  problems.error(
    'spec/path-conflict',
    workspace.guestPath.at,
    `the workspace of ${what} is at ${guestPath}, and files of the stage itself are in ${own}: they would count as changes of the repository`,
    `remove \`guest\`, or use a separate folder, such as ${WORKSPACE_DEFAULTS.guestPath}`,
  );
}

function refuseOverlap(
  { inputs }: StageSpec,
  guestPath: string,
  inputPaths: readonly string[],
  what: string,
  problems: Problems,
): void {
  inputPaths.forEach((path, index) => {
    if (!contains(path, guestPath) && !contains(guestPath, path)) return;
    problems.error(
      'spec/path-conflict',
      inputs[index]!.from.at,
      `an input of ${what} is at ${path}, and its workspace at ${guestPath}: the input would count as a change of the repository`,
      'give the input a path outside the workspace, such as /workspace/input',
    );
  });
}

function compileSource(workspace: WorkspaceSpec, context: WorkspaceContext): WorkspaceSource | null {
  const { git, from } = workspace;
  if (from !== null) return context.giver === null ? null : { kind: 'stage', stage: context.giver };
  if (git === null) return null;
  const written = { at: git.at, value: context.fill(git) };
  const ref = compileRef(workspace, context);
  return isGitAddress(written.value)
    ? compileAddress(written, ref, workspace, context)
    : compileFolder(written, ref, workspace, context);
}

function compileFolder(
  path: Located<string>,
  ref: string | null,
  { includeDirty }: WorkspaceSpec,
  { what, baseDir, problems }: WorkspaceContext,
): WorkspaceSource | null {
  const found = compileHostPath(path, `the workspace of ${what}`, baseDir, problems);
  if (found === null) return null;
  return { kind: 'folder', source: { kind: 'host', path: found }, ref, includeDirty: includeDirty ?? false };
}

function compileAddress(
  { at, value }: Located<string>,
  ref: string | null,
  { includeDirty }: WorkspaceSpec,
  { what, problems }: WorkspaceContext,
): WorkspaceSource | null {
  const problem = findAddressProblem(value);
  const errorsBefore = problems.errorCount();
  if (problem !== null)
    problems.error(
      'spec/bad-value',
      at,
      `\`git\` of the workspace of ${what} is a URL that ${problem}`,
      "write it as https://HOST/PATH; the host's git logs in with its own credentials",
    );
  if (value.length > PLAN_LIMITS.referenceCharacters)
    problems.error(
      'spec/too-large',
      at,
      `\`git\` of the workspace of ${what} has ${value.length} characters; at most ${PLAN_LIMITS.referenceCharacters} are allowed`,
      'write a shorter one',
    );
  if (includeDirty === true)
    problems.error(
      'spec/bad-value',
      at,
      `the workspace of ${what} has \`include_dirty\` and a URL: a repository behind a URL has no uncommitted changes`,
      'remove `include_dirty`, or set `git` to a folder',
    );
  return problems.errorCount() > errorsBefore ? null : { kind: 'url', url: value, ref };
}

function compileRef({ ref }: WorkspaceSpec, { what, fill, mayLackValues, problems }: WorkspaceContext): string | null {
  if (ref === null) return null;
  const name = fill(ref);
  // A run has not set the value yet.
  if (mayLackValues && hasStandIn(name)) return name;
  if (name !== ref.value && !isPlainRef(name))
    problems.error(
      'spec/bad-value',
      ref.at,
      `\`ref\` of the workspace of ${what} becomes ${quote(name)}, which is no hash and no name of a branch or tag`,
      'give the parameter a name such as main or v1.2, or a hash; git would read another text as an option or an expression',
    );
  else if (!isRefName(name) || name.length > PLAN_LIMITS.referenceCharacters)
    problems.error(
      'spec/bad-value',
      ref.at,
      `\`ref\` of the workspace of ${what} is ${quote(name)}, which is not the name of a branch, tag or commit`,
      'write a name such as main, v1.2 or a hash',
    );
  return name;
}

/** Returns the top folder of the repository in the guest. */
function topFolder({ guestPath }: WorkspaceSpec): string {
  return guestPath?.value ?? WORKSPACE_DEFAULTS.guestPath;
}

/** Returns the working folder of a command that sets no other. */
export function workspaceFolder(workspace: WorkspaceSpec, fill: Filler): string {
  const inner = workspace.subfolder === null ? '.' : toRelativePath(fill(workspace.subfolder));
  return inner === null || inner === '.' ? topFolder(workspace) : `${topFolder(workspace)}/${inner}`;
}

/** Checks that the VM can hold a workspace. A stage with a workspace has a scope of its own. */
export function checkWorkspaceVm(
  { workspace }: StageSpec,
  what: string,
  sandbox: SandboxPlan,
  problems: Problems,
): void {
  if (workspace === null) return;
  // If neither could be read, which was reported, use the place of the workspace itself.
  const { at } = workspace.git ?? workspace.from ?? workspace;
  if (sandbox.mode === 'mock')
    problems.error(
      'spec/bad-value',
      at,
      `${what} has a workspace and \`mode: mock\`, which has no git`,
      'remove `mode: mock`; `mock` at the stage is its result without its VM',
    );
  else if (workspace.from !== null && !mayHaveGit(sandbox))
    problems.error(
      'spec/bad-value',
      at,
      `${what} continues a workspace, and its image \`base\` has no git`,
      'write `image: dev`, or remove `image` from `sandbox`',
    );
  const guestPath = topFolder(workspace);
  for (const mount of sandbox.mounts)
    if (contains(mount.guestPath, guestPath) || contains(guestPath, mount.guestPath))
      problems.error(
        'spec/path-conflict',
        at,
        `the workspace of ${what} is at ${guestPath}, and a mount at ${mount.guestPath}`,
        'give each its own folder in the guest',
      );
}

/** Refuses a plan of a token that names more of this machine than its uploads and the repositories of the token. */
import { allowsGitPlace, toGitPlace } from '../../domain/plan/git-place.ts';
import type { Plan, StagePlan } from '../../domain/plan/plan.ts';
import { skillOf, skillsOf } from '../../domain/plan/work.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { findRefusedMounts } from '../../client/runs/refused-mounts.ts';
import { AppError } from '../app-error.ts';
import { isConfinedPath } from './spec-roots.ts';

/** The token that starts a run. */
export interface TokenStarter {
  readonly name: string;
  /** Repositories of the network, as HOST/PATH, that its runs may fetch. */
  readonly allowGit: readonly string[];
  /** The absolute path of the folder with the uploads of the run. */
  readonly folder: string;
}

const UPLOAD_IT = 'Upload the folder, and name the upload in `uploads` of the request under this path.';

/**
 * Judges paths by their text only, so that no answer shows whether a file of this machine exists.
 * @throws AppError `admit/mount-refused`, `admit/service-refused`
 */
export function refuseForToken({ scopes, stages }: Plan, { folder, allowGit }: Omit<TokenStarter, 'name'>): void {
  const require = (what: string, path: string): void => {
    if (!isConfinedPath(path, folder))
      throw createRefusal(`${what} ${path}, which is not in an upload of the request`, UPLOAD_IT);
  };
  for (const { id, sandbox } of scopes) {
    for (const { source, mode } of sandbox.mounts) {
      require(`scope ${id} mounts`, source.path);
      if (mode !== 'ro')
        throw createRefusal(
          `scope ${id} mounts ${source.path} with \`mode: ${mode}\`, and a run of a token mounts only \`ro\``,
          'Write `mode: ro`, and declare what the run makes as `outputs`.',
        );
    }
    const prepared = sandbox.mode === 'mock' ? null : (sandbox.prepared ?? sandbox.needs?.snapshot ?? null);
    if (prepared !== null)
      throw createRefusal(
        `scope ${id} starts from the sandbox ${prepared}, which holds files of the owner of this host`,
        'Remove `snapshot`, and let the stages make what they need.',
      );
    const image = sandbox.mode === 'mock' ? undefined : sandbox.needs?.image;
    if (image?.startsWith('/') === true) require(`scope ${id} has the image`, image);
    const [service] = sandbox.egress?.services ?? [];
    if (service !== undefined)
      throw new AppError(
        'usage',
        'admit/service-refused',
        `scope ${id} reaches the service ${service.name} (${service.host}:${service.port}), and a run of a token reaches no service of this host`,
        'Remove the service. A model server of this host is one too: use a provider of the internet.',
      );
  }
  for (const stage of stages) refuseStage(stage, { require, allowGit });
}

interface StageRules {
  readonly require: (what: string, path: string) => void;
  readonly allowGit: readonly string[];
}

function refuseStage({ id, work, workspace }: StagePlan, { require, allowGit }: StageRules): void {
  if (skillOf(work) !== null)
    throw createRefusal(
      `stage ${id} runs a step machine, whose code would run on this host`,
      'Start the spec with `voidbox run` on the host of the service.',
    );
  for (const skill of skillsOf(work))
    if (skill.kind === 'file') require(`stage ${id} has the agent skill`, skill.source.path);
  if (workspace?.from.kind === 'folder') require(`stage ${id} works in`, workspace.from.source.path);
  if (workspace?.from.kind !== 'url') return;
  const place = toGitPlace(workspace.from.url);
  if (place === null || !allowsGitPlace(allowGit, place))
    throw createRefusal(
      `stage ${id} fetches ${sanitizeLine(workspace.from.url)}, which the token does not allow`,
      `Upload the repository, or create a token that allows it: voidbox token create NAME --scope run --allow-git ${place ?? 'HOST/PATH'}`,
    );
}

/**
 * Like `refuseForToken`, when the uploads are unpacked: also follows links.
 * @throws AppError `admit/mount-refused`, `admit/service-refused`, `cli/mount-missing`
 */
export async function settleForToken(plan: Plan, starter: Omit<TokenStarter, 'name'>): Promise<void> {
  refuseForToken(plan, starter);
  const { folder } = starter;
  for (const { hostPath, why, detail } of await findRefusedMounts(plan, [folder], folder)) {
    if (why === 'elsewhere') throw createRefusal(`${hostPath} leads out of the uploads of the request`, UPLOAD_IT);
    if (why === 'missing')
      throw new AppError('usage', 'cli/mount-missing', `the uploads of the request have no ${hostPath}`, UPLOAD_IT);
    // A repository around the uploads is one of this host.
    if (isConfinedPath(detail, folder))
      throw new AppError(
        'usage',
        'cli/workspace-subfolder',
        `the spec works in ${hostPath}, which is a folder of the repository ${detail}`,
        'Name the top folder of the repository, and the folder in it as `subfolder`.',
      );
  }
}

function createRefusal(message: string, remedy: string): AppError {
  return new AppError('usage', 'admit/mount-refused', message, remedy);
}

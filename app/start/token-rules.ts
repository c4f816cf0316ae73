/** Refuses a plan of a token or of a deployment that names more of this machine than its own files and repositories. */
import { allowsGitPlace, toGitPlace } from '../../domain/plan/git-place.ts';
import type { Plan, StagePlan } from '../../domain/plan/plan.ts';
import { skillOf, skillsOf } from '../../domain/plan/work.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { ClientMark, MarkedStarter } from '../../client/runs/client-record.ts';
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

/** A delivery that starts a run of a deployment. Its runs have the limits of a token's. */
export interface DeploymentStarter {
  readonly deployment: Omit<Extract<MarkedStarter, { kind: 'deployment' }>, 'kind'>;
  /** Folders of this host that the owner allowed the deployment to mount `ro`, absolute. */
  readonly allow: readonly string[];
  readonly allowGit: readonly string[];
  /** The absolute path of the folder with the files of the version. */
  readonly folder: string;
}

/** A starter whose runs get nothing of this machine but what it names. */
export type ConfinedStarter = TokenStarter | DeploymentStarter;

/** Returns the mark of a run that the starter starts. */
export function createConfinedMark(starter: ConfinedStarter): ClientMark {
  const { allowGit, folder } = starter;
  if ('name' in starter) return { baseDir: folder, allowGit, starter: { kind: 'token', name: starter.name } };
  return { baseDir: folder, allow: starter.allow, allowGit, starter: { kind: 'deployment', ...starter.deployment } };
}

/** Reads the starter of an earlier run; null: the owner, or a run without a mark. */
export function readConfinedStarter({
  starter,
  baseDir: folder,
  allow = [],
  allowGit = [],
}: Partial<ClientMark>): ConfinedStarter | null {
  if (starter === undefined || folder === undefined) return null;
  if (starter.kind === 'token') return { name: starter.name, allowGit, folder };
  const { kind: _kind, ...deployment } = starter;
  return { deployment, allow, allowGit, folder };
}

/** The files and repositories that the runs of a starter may use. */
type Limits = Pick<DeploymentStarter, 'allowGit' | 'folder'> & Partial<Pick<DeploymentStarter, 'allow' | 'deployment'>>;

interface Wording {
  readonly starter: string;
  readonly files: string;
  readonly addFiles: string;
  allowGit(place: string): string;
}

const OF_TOKENS: Wording = {
  starter: 'a token',
  files: 'an upload of the request',
  addFiles: 'Upload the folder, and name the upload in `uploads` of the request under this path.',
  allowGit: (place) =>
    `Upload the repository, or create a token that allows it: voidbox token create NAME --scope run --allow-git ${place}`,
};

const OF_DEPLOYMENTS: Wording = {
  starter: 'a deployment',
  files: 'the files of the deployment',
  addFiles:
    'Move it into the folder of the spec or the repository around it. Or, as the owner of the service, allow it: voidbox deploy FILE --allow-mounts FOLDER',
  allowGit: (place) =>
    `Deploy a repository of your machine instead of the URL, or allow the URL: voidbox deploy FILE --allow-git ${place}`,
};

function chooseWording({ deployment }: Limits): Wording {
  return deployment === undefined ? OF_TOKENS : OF_DEPLOYMENTS;
}

/**
 * Judges paths by their text only, so that no answer shows whether a file of this machine exists.
 * @throws AppError `admit/mount-refused`, `admit/service-refused`
 */
export function refuseForStarter({ scopes, stages }: Plan, limits: Limits): void {
  const { folder, allow = [] } = limits;
  const words = chooseWording(limits);
  const require = (what: string, path: string): void => {
    if (![folder, ...allow].some((root) => isConfinedPath(path, root)))
      throw createRefusal(`${what} ${path}, which is not in ${words.files}`, words.addFiles);
  };
  for (const { id, sandbox } of scopes) {
    for (const { source, mode } of sandbox.mounts) {
      require(`scope ${id} mounts`, source.path);
      if (mode !== 'ro')
        throw createRefusal(
          `scope ${id} mounts ${source.path} with \`mode: ${mode}\`, and a run of ${words.starter} mounts only \`ro\``,
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
        `scope ${id} reaches the service ${service.name} (${service.host}:${service.port}), and a run of ${words.starter} reaches no service of this host`,
        'Remove the service. A model server of this host is one too: use a provider of the internet.',
      );
  }
  for (const stage of stages) refuseStage(stage, { require, limits, words });
}

interface StageRules {
  readonly require: (what: string, path: string) => void;
  readonly limits: Limits;
  readonly words: Wording;
}

function refuseStage({ id, work, workspace }: StagePlan, { require, limits, words }: StageRules): void {
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
  if (place === null || !allowsGitPlace(limits.allowGit, place))
    throw createRefusal(
      `stage ${id} fetches ${sanitizeLine(workspace.from.url)}, which ${words.starter === 'a token' ? 'the token' : 'the deployment'} does not allow`,
      words.allowGit(place ?? 'HOST/PATH'),
    );
}

/**
 * Like `refuseForStarter`, when the files are unpacked: also follows links.
 * @throws AppError `admit/mount-refused`, `admit/service-refused`, `cli/mount-missing`
 */
export async function settleForStarter(plan: Plan, limits: Limits): Promise<void> {
  refuseForStarter(plan, limits);
  const { folder, allow = [] } = limits;
  const { files, addFiles } = chooseWording(limits);
  const roots = [folder, ...allow];
  for (const { hostPath, why, detail } of await findRefusedMounts(plan, roots, folder)) {
    if (why === 'elsewhere') throw createRefusal(`${hostPath} leads out of ${files}`, addFiles);
    if (why === 'missing')
      throw new AppError('usage', 'cli/mount-missing', `there is no ${hostPath} in ${files}`, addFiles);
    // A repository around the files is one of this host.
    if (roots.some((root) => isConfinedPath(detail, root)))
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

/** Creates the error of a process without secrets that starts a run of a deployment. */
export function createSecretsError(runId: string): AppError {
  return new AppError(
    'usage',
    'deploy/secrets-elsewhere',
    `a delivery of a deployment started the run ${sanitizeLine(runId)}, and only its service can read its secrets`,
    'Retry it through the service: VOIDBOX_SERVER=unix:STATE_FOLDER/api.sock voidbox retry RUN',
  );
}

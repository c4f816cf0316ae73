/** Sends a spec and its files to a service, which makes a version of a deployment. */
import { basename, relative } from 'node:path';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { addReceivers } from '../../domain/language/compile/trigger/added-receivers.ts';
import { contains } from '../../domain/language/text/paths.ts';
import { listMockAgentStages, withMockAgents } from '../../domain/plan-rules/mock-agents.ts';
import type { Notify } from '../../domain/notification/notify.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { ServiceClient } from '../../http/service-client.ts';
import { createUsageError } from '../app-error.ts';
import { generateTar, measureFolder, PACK_LIMITS } from '../control/pack-folder.ts';
import { listRepositories, requireRepositories, sendRepositories } from '../control/send-repositories.ts';
import { sendBlob } from '../control/send-uploads.ts';
import type { Machine } from '../machine.ts';
import { type LoadedSpec, loadSpec, readTextBeside } from '../start/load-spec.ts';
import { resolveFolders } from '../start/plan-mounts.ts';
import { collectFiles } from './collect-files.ts';
import type { NotifyFile } from './compile-request.ts';

export interface DeployOptions {
  /** The path of the spec. */
  readonly file: string;
  readonly name: string | null;
  readonly params: Readonly<Record<string, string>>;
  /** Whether the mock agent plays the agents of its runs. */
  readonly mockAgents: boolean;
  readonly isPaused: boolean;
  readonly isDry: boolean;
  /** Folders of the service's machine, from the working folder. */
  readonly allowMounts: readonly string[];
  readonly allowGit: readonly string[];
  /** The path of a file with further receivers; null: none. */
  readonly notify: string | null;
}

export interface SendTools {
  readonly client: ServiceClient;
  readonly context: Machine;
  readonly onProgress: (line: string) => void;
  /** Called with what is wrong with the spec, and with the texts by the names that diagnostics use. */
  readonly onDiagnostics: (diagnostics: readonly Diagnostic[], sources: LoadedSpec['sources']) => Promise<void>;
}

/** Compiling in the service has its own limit; unpacking files may take longer. */
const DEPLOY_MS = 10 * 60_000;

/** @returns the answer of the service @throws AppError, ServiceError */
export async function sendDeployment(options: DeployOptions, tools: SendTools): Promise<unknown> {
  const { file, params, name, mockAgents, isPaused, isDry, allowGit } = options;
  const { client, context, onProgress } = tools;
  const allowed = resolveFolders(options.allowMounts, context.cwd);
  const read: string[] = [];
  const loaded = await loadSpec(
    file,
    { params, settings: null, allow: allowed, allowsMissingParams: true, onRead: (path) => read.push(path) },
    context,
  );
  await tools.onDiagnostics(loaded.diagnostics, loaded.sources);
  const { plan, spec, baseDir, deployProblems } = loaded;
  // The service would name the places in the JSON of a definition.
  if (plan !== null && loaded.text === null) await tools.onDiagnostics(deployProblems, loaded.sources);
  if (plan === null || spec === null || (loaded.text === null && deployProblems.length > 0))
    throw createUsageError(`\`${file}\` is not a spec that can be deployed`);
  if (mockAgents && !hasAgent(plan)) onProgress('--mock-agents has no effect: no stage has an agent');
  const files = collectFiles(plan, read, { baseDir, allowed });
  const repositories = listRepositories(plan);
  await requireRepositories(repositories, { baseDir, allow: allowed }, context);
  const sent = files.hasFiles ? await sendFiles(files, tools) : null;
  const bundles = await sendBundles(plan, { baseDir, root: files.root, allowed }, tools);
  const json = {
    spec,
    specName: nameSpec(loaded),
    files: sent,
    specDir: files.specDir,
    bundles,
    params,
    mockAgents,
    isPaused,
    isDry,
    allowMounts: allowed,
    allowGit,
    notify: await readReceivers(options.notify, loaded.notify, tools),
    ...(name === null ? {} : { name }),
  };
  onProgress(isDry ? 'comparing the versions' : 'deploying');
  return await client.change({ path: ['deployments'], body: { json }, answerMs: DEPLOY_MS });
}

/** The folder of the user is no part of a version. The lines of a definition are not those of its spec. */
function nameSpec({ path, text }: LoadedSpec): string {
  if (path === null) return 'spec';
  return text === null ? `${basename(path)}.json` : basename(path);
}

const NOTIFY_FORM = 'A file of receivers has the keys `notify`, `late_after` and `waiting_after` of a spec.';

/**
 * Checks the file of receivers before anything is sent.
 * @throws AppError
 */
async function readReceivers(file: string | null, ofSpec: Notify, tools: SendTools): Promise<NotifyFile | null> {
  if (file === null) return null;
  const text = readTextBeside(file, NOTIFY_FORM, tools.context);
  const { diagnostics } = addReceivers(ofSpec, text, file);
  await tools.onDiagnostics(diagnostics, new Map([[file, text]]));
  if (diagnostics.some(({ severity }) => severity === 'error'))
    throw createUsageError(`\`${file}\` is not a file of receivers`, NOTIFY_FORM);
  return { text, name: basename(file) };
}

function hasAgent(plan: Plan): boolean {
  const made = withMockAgents(plan);
  return 'plan' in made && listMockAgentStages(made.plan).length > 0;
}

async function sendFiles({ root, isPacked }: ReturnType<typeof collectFiles>, tools: SendTools): Promise<string> {
  const left = new Set<string>();
  const measure = async () => ({
    ...(await measureFolder(root, PACK_LIMITS, isPacked, (path) => left.add(path))),
    open: () => generateTar(root, PACK_LIMITS, isPacked),
  });
  const sha256 = await sendBlob(root, measure, tools);
  if (left.size > 0) tools.onProgress(describeLeft([...left], root));
  return sha256;
}

/** The most links of a notice. */
const MOST_NAMED = 10;

function describeLeft(left: readonly string[], root: string): string {
  const more = left.length > MOST_NAMED ? ` and ${left.length - MOST_NAMED} more` : '';
  const links = left.length === 1 ? 'this link leads' : 'these links lead';
  return `not sent, because ${links} out of ${root}: ${left.slice(0, MOST_NAMED).join(', ')}${more}`;
}

interface Places {
  readonly baseDir: string;
  readonly root: string;
  readonly allowed: readonly string[];
}

/** Names repositories as the service finds them: from the folder of the spec, or by their absolute path. */
async function sendBundles(
  plan: Plan,
  { baseDir, root, allowed }: Places,
  tools: SendTools,
): Promise<Readonly<Record<string, string>>> {
  const repositories = listRepositories(plan);
  const sent = await sendRepositories(repositories, { baseDir, allow: allowed }, tools);
  const isRelative = (path: string): boolean => contains(root, path) || contains(path, root);
  return Object.fromEntries(
    Object.entries(sent).map(([path, sha256]) => [isRelative(path) ? relative(baseDir, path) || '.' : path, sha256]),
  );
}

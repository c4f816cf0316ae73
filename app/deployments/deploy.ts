/** Makes a version of a deployment: unpacks its files, compiles it, checks what it may do, and enables it. */
import { createHash } from 'node:crypto';
import { findNameProblem } from '../../domain/delivery/deployment-name.ts';
import { listNotifySecrets, type Notify } from '../../domain/notification/notify.ts';
import { listTriggerSecrets, type Trigger } from '../../domain/delivery/trigger.ts';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import { shorten } from '../../domain/units/quote.ts';
import { isSha256 } from '../../domain/units/sha256.ts';
import type { DeployedStage, DeploymentRow, TriggerStore, VersionRow } from '../../store/triggers.ts';
import type { UploadStore, VersionFolders } from '../../store/uploads.ts';
import { AppError } from '../app-error.ts';
import type { Caller } from '../access/authenticate.ts';
import { requireDeployment } from '../access/visible-deployments.ts';
import type { Machine } from '../machine.ts';
import { parsePlaces } from '../start/plan-addresses.ts';
import { resolveFolders } from '../start/plan-mounts.ts';
import { requireFolder, SpecRefusal } from '../start/start-spec.ts';
import { nameSender } from '../start/start-upload.ts';
import { settleForStarter } from '../start/token-rules.ts';
import { refuseUploads } from '../uploads/place-uploads.ts';
import { unpackAll } from '../uploads/unpack-all.ts';
import { refuseReceivers, type ReceiverTools } from '../notifications/refuse-receivers.ts';
import type { CompiledVersion, NotifyFile } from './compile-request.ts';
import { placeVersion } from './compile-version.ts';
import { type OutboxTools, refuseOutboxHosts, refuseSources } from './refuse-sources.ts';
import { compareVersions, type VersionChanges } from './compare-versions.ts';
import { enableWithoutCircle, listAbsent, refuseCircle, requireFollowed } from './followed.ts';
import type { VersionCompiler } from './version-compiler.ts';

export interface DeployRequest {
  /** Null: the name of the spec. */
  readonly name: string | null;
  /** YAML or JSON. */
  readonly spec: string;
  /** The name of the spec's file, for diagnostics. */
  readonly specName: string;
  /** The hash of the uploaded tar with the files of the spec; null: it needs no file. */
  readonly files: string | null;
  /** The folder of the spec in `files`; empty: the top. */
  readonly specDir: string;
  /** The hashes of uploaded bundles, by the paths of repositories from `specDir`. */
  readonly bundles: Readonly<Record<string, string>>;
  readonly params: Readonly<Record<string, string>>;
  /** Whether the mock agent plays the agents of its runs. */
  readonly mockAgents: boolean;
  /** Whether a new deployment begins paused. */
  readonly isPaused: boolean;
  /** Whether only the changes are shown. */
  readonly isDry: boolean;
  /** Folders of the service's machine that runs may mount `ro`; only the owner may name them. */
  readonly allowMounts: readonly string[];
  readonly allowGit: readonly string[];
  /** The file of receivers that are added to those of the spec. Null: none are. */
  readonly notify: NotifyFile | null;
}

export interface DeployTools extends ReceiverTools, OutboxTools {
  readonly triggers: TriggerStore;
  readonly folders: VersionFolders;
  readonly uploads: UploadStore;
  readonly compiler: VersionCompiler;
  /** Returns the secrets among `names` that the deployment may not use, or that do not exist. */
  readonly listMissingSecrets: (deployment: string, names: readonly string[]) => Promise<readonly string[]>;
}

export interface DeployResult {
  readonly name: string;
  /** Null: a dry run would make a new version. */
  readonly version: number | null;
  /** False: the enabled version is the same. */
  readonly isNew: boolean;
  readonly isPaused: boolean;
  readonly changes: VersionChanges;
  readonly triggers: readonly Trigger[];
  readonly notify: Notify;
  readonly secrets: readonly string[];
  /** Deployments that its triggers follow, and that do not exist. */
  readonly absentUpstreams: readonly string[];
  /** Warnings of the spec. */
  readonly diagnostics: readonly Diagnostic[];
}

const MOST_SPEC_DIR_BYTES = 1_024;

/** @throws SpecRefusal, AppError, CodedError `host/disk-full`; nothing of the version is left then */
export async function deploy(
  request: DeployRequest,
  caller: Caller,
  tools: DeployTools,
  machine: Machine,
): Promise<DeployResult> {
  refuseRequest(request, caller);
  const folder = await tools.folders.make();
  let isKept = false;
  try {
    const made = await makeVersion(request, folder, { caller, tools, machine });
    const { name, version, compiled } = made;
    const current = await findEnabled(name, tools.triggers);
    const changes = compareVersions(current?.version ?? null, version);
    const { deployments } = tools.triggers;
    const absentUpstreams = await listAbsent(version.triggers, deployments);
    const { triggers, notify, secrets } = version;
    const shared = { name, changes, triggers, notify, secrets, absentUpstreams };
    const { diagnostics } = compiled;
    const isSame = current?.version.hash === version.hash;
    if (request.isDry) {
      await refuseCircle(name, version.triggers, deployments);
      const isPaused = current?.deployment.isPaused ?? request.isPaused;
      return { ...shared, version: isSame ? current.version.version : null, isNew: !isSame, isPaused, diagnostics };
    }
    const { isPaused } = request;
    const deployed = await enableWithoutCircle(() => deployments.deploy(version, { isPaused }));
    isKept = deployed.version.folder === folder.name;
    return {
      ...shared,
      version: deployed.version.version,
      isNew: deployed.isNew,
      isPaused: deployed.deployment.isPaused,
      diagnostics,
    };
  } finally {
    if (!isKept) await tools.folders.drop(folder.name);
  }
}

interface Making {
  readonly caller: Caller;
  readonly tools: DeployTools;
  readonly machine: Machine;
}

async function makeVersion(
  request: DeployRequest,
  folder: { readonly name: string; readonly path: string },
  { caller, tools, machine }: Making,
) {
  const { spec, specName, files, specDir, bundles, params, mockAgents, notify } = request;
  const allowMounts = resolveFolders(request.allowMounts, folder.path);
  const allowGit = parsePlaces(request.allowGit);
  const places = placeVersion({ folder: folder.path, specDir, bundles });
  const tar = { key: 'files', named: folder.path, target: folder.path };
  await unpackAll(
    nameSender(caller),
    folder.path,
    { ...places, uploads: files === null ? [] : [{ ...tar, sha256: files }] },
    tools,
    machine,
  );
  const asked = { spec, specName, folder: folder.path, specDir, bundles, params, allowMounts, allowGit, mockAgents };
  const compiled = requireCompiled(
    await tools.compiler.compile({ ...asked, deployedParams: params, isDeployed: true, notify }),
  );
  if (compiled.deployProblems.length > 0) throw new SpecRefusal(compiled.deployProblems);
  refuseSources(compiled.triggers, tools.readAllowedSources);
  const plan = fromWire(compiled.plan);
  const name = request.name ?? plan.name;
  refuseName(name);
  requireDeployment(caller, name);
  requireFollowed(compiled.triggers, caller);
  await settleForStarter(plan, {
    deployment: { name, version: 0, delivery: '', deployer: null },
    folder: folder.path,
    allow: allowMounts,
    allowGit,
  });
  const named = [plan.hostVariables, listTriggerSecrets(compiled.triggers), listNotifySecrets(compiled.notify)];
  const secrets = [...new Set(named.flat())].toSorted();
  const missing = await tools.listMissingSecrets(name, secrets);
  if (missing.length > 0) throw createMissingError(name, missing, plan);
  await refuseOutboxHosts(name, compiled.triggers, tools);
  await refuseReceivers(name, compiled.notify, new Map(compiled.receiverPlaces), tools);
  const facts = {
    deployment: name,
    spec,
    specName,
    params,
    files,
    specDir,
    bundles,
    paramNames: compiled.paramNames,
    stages: describeStages(plan, folder.path),
    triggers: compiled.triggers,
    notify: compiled.notify,
    secrets,
    allowMounts,
    allowGit,
    mockAgents,
  };
  const version = {
    ...facts,
    folder: folder.name,
    createdAtMs: machine.now().getTime(),
    deployer: caller.kind === 'owner' ? null : caller.token.name,
    hash: computeHash(facts),
  };
  return { name, version, compiled };
}

/** @throws AppError */
function refuseRequest({ name, files, specDir, bundles, allowMounts }: DeployRequest, caller: Caller): void {
  if (name !== null) refuseName(name);
  if (files !== null && !isSha256(files)) throw createRequestError('`files`: it is not a SHA-256 in hex');
  const isPath = specDir === '' || specDir.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
  if (!isPath || specDir.includes('\0') || Buffer.byteLength(specDir) > MOST_SPEC_DIR_BYTES)
    throw createRequestError(`\`specDir\`: \`${shorten(specDir)}\` is not a folder of the upload`);
  refuseUploads({}, bundles);
  if (caller.kind === 'token' && allowMounts.length > 0)
    throw new AppError(
      'usage',
      'admit/mount-refused',
      '`allowMounts` names folders of the owner of the host, and a token deploys',
      'Put the files beside the spec: they are sent with it. Or deploy as the owner, on the machine of the service.',
    );
  for (const folder of allowMounts) requireFolder('allowMounts', folder);
}

function refuseName(name: string): void {
  const problem = findNameProblem(name);
  if (problem === null) return;
  throw new AppError(
    'usage',
    'api/invalid-request',
    `\`name\`: \`${shorten(name)}\` cannot name a deployment: ${problem}`,
    'Choose another one: voidbox deploy FILE --name NAME',
  );
}

/** @throws SpecRefusal, AppError */
export function requireCompiled(answer: Awaited<ReturnType<VersionCompiler['compile']>>): CompiledVersion {
  switch (answer.kind) {
    case 'compiled':
      return answer;
    case 'mistakes':
      throw new SpecRefusal(answer.diagnostics);
    case 'refused':
      throw new AppError('usage', answer.code as AnyErrorCode, answer.message, answer.remedy);
  }
}

export interface EnabledVersion {
  readonly deployment: DeploymentRow;
  readonly version: VersionRow;
}

/** Null: there is no such deployment. */
export async function findEnabled(name: string, { deployments }: TriggerStore): Promise<EnabledVersion | null> {
  const deployment = await deployments.find(name);
  if (deployment === null) return null;
  const version = await deployments.findVersion(name, deployment.version);
  if (version === null) throw new Error(`version ${deployment.version} of the deployment ${name} is gone`);
  return { deployment, version };
}

/** The folder of a version differs from that of an equal one. */
function describeStages({ stages, scopes }: Plan, folder: string): readonly DeployedStage[] {
  return stages.map((stage) => {
    const scope = scopes.find(({ id }) => id === stage.scope) ?? null;
    const text = toCanonicalJson({ stage, scope }).replaceAll(JSON.stringify(folder).slice(1, -1), '');
    return { id: stage.id, hash: createHash('sha256').update(text).digest('hex') };
  });
}

function computeHash(facts: object): string {
  return createHash('sha256').update(toCanonicalJson(facts)).digest('hex');
}

function createMissingError(name: string, missing: readonly string[], { stages }: Plan): AppError {
  const [first] = missing;
  const isOne = missing.length === 1;
  const hasAgent = stages.some(({ work }) => work.kind === 'agent');
  const aboutLogins = hasAgent ? '. A login of a person ends within hours, so agents of deployments use API keys.' : '';
  return new AppError(
    'usage',
    'deploy/secret-missing',
    `the deployment ${name} has no ${isOne ? 'secret' : 'secrets'} ${missing.join(', ')}`,
    `Set ${isOne ? 'it' : 'each of them'}: voidbox secret set ${first} --deployment ${name}${aboutLogins}`,
  );
}

function createRequestError(message: string): AppError {
  return new AppError('usage', 'api/invalid-request', message);
}

/**
 * Compiles a version of a deployment, with the parameters of one delivery. The process of `compile-main.ts` runs this:
 * specs and payloads are hostile.
 */
import { join } from 'node:path';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { addReceivers, placeReceivers } from '../../domain/language/compile/trigger/added-receivers.ts';
import type { Spec } from '../../domain/language/read/spec.ts';
import type { Position } from '../../domain/language/text/tree.ts';
import type { Notify } from '../../domain/notification/notify.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { shorten } from '../../domain/units/quote.ts';
import { parseSpec } from '../../domain/language/read/parse.ts';
import { contains, resolveFrom } from '../../domain/language/text/paths.ts';
import type { Environment } from '../../setup/environment.ts';
import { AppError } from '../app-error.ts';
import { describeError } from '../describe-error.ts';
import type { Machine } from '../machine.ts';
import { compileSpec, SpecRefusal } from '../start/start-spec.ts';
import { STDIN_NAME } from '../start/load-spec.ts';
import { refuseForStarter } from '../start/token-rules.ts';
import { movePlan, placeBundles, type UploadPlaces } from '../uploads/place-uploads.ts';
import type { CompileAnswer, CompileRequest } from './compile-request.ts';

/** @throws an error that is a bug */
export async function compileVersion(request: CompileRequest, env: Environment): Promise<CompileAnswer> {
  try {
    return await compile(request, env);
  } catch (error) {
    if (error instanceof SpecRefusal) {
      return { kind: 'mistakes', diagnostics: replaceFileNames(error.diagnostics, request) };
    }
    const known = await describeError(error);
    if (known === null) throw error;
    const { code, message, remedy } = known;
    return { kind: 'refused', code, message, remedy };
  }
}

async function compile(request: CompileRequest, env: Environment): Promise<CompileAnswer> {
  const { spec, specName, folder, params, deployedParams, isDeployed, allowMounts, allowGit, mockAgents } = request;
  const places = placeVersion(request);
  const machine = createCompileMachine(env, spec, places.baseDir, folder);
  const limits = { deployment: NO_DELIVERY, folder, allow: allowMounts, allowGit };
  let sent: readonly SentRepository[] = [];
  const settlePlan = (written: Plan): Plan => {
    sent = listSent(written, places);
    const moved = movePlan(written, places);
    refuseForStarter(moved, limits);
    return moved;
  };
  const options = {
    params,
    variables: {},
    mock: null,
    mockAgents,
    settlePlan,
    allowsMissingParams: isDeployed,
  };
  const { compiled, diagnostics } = await compileSpec(options, [], machine);
  const asked = sent;
  if (!isDeployed && asked.some(({ ref }) => ref !== null)) {
    await compileSpec({ ...options, params: deployedParams, allowsMissingParams: true }, [], machine);
    refuseOtherRefs(asked, sent);
  }
  const { spec: parsed } = parseSpec(spec, specName);
  const notify = compileReceivers(compiled.notify, parsed, request);
  return {
    kind: 'compiled',
    plan: toWire(compiled.plan),
    written: toWire(compiled.written),
    images: compiled.images,
    places: [...compiled.places],
    source: compiled.source,
    arePlayed: compiled.mockAgents === true,
    paramNames: parsed?.params.map(({ name }) => name) ?? [],
    triggers: compiled.triggers,
    notify: notify.notify,
    receiverPlaces: notify.places,
    deployProblems: replaceFileNames(compiled.deployProblems, request),
    diagnostics: [...replaceFileNames(diagnostics, request), ...notify.diagnostics],
  };
}

/**
 * Adds the receivers of the deployment to those of its spec.
 * @throws SpecRefusal
 */
function compileReceivers(ofSpec: Notify, spec: Spec | null, { specName, notify: added }: CompileRequest) {
  const place = (places: ReadonlyMap<string, Position>, file: string) =>
    [...places].map(([name, { line, column }]) => [name, { file, line, column }] as const);
  const places = place(placeReceivers(spec?.notify ?? []), specName);
  if (added === null) return { notify: ofSpec, places, diagnostics: [] };
  const joined = addReceivers(ofSpec, added.text, added.name);
  if (joined.diagnostics.some(({ severity }) => severity === 'error')) throw new SpecRefusal(joined.diagnostics);
  return { ...joined, places: [...places, ...place(joined.places, added.name)] };
}

interface SentRepository {
  readonly stage: string;
  readonly path: string;
  readonly ref: string | null;
}

/** Returns the workspaces whose repository was sent, with the commits that the plan asks for. */
function listSent({ stages }: Plan, { baseDir, bundles = [] }: UploadPlaces): readonly SentRepository[] {
  return stages.flatMap(({ id, workspace }) => {
    if (workspace?.from.kind !== 'folder') return [];
    const { source, ref } = workspace.from;
    const full = resolveFrom(baseDir, source.path);
    return bundles.some(({ named }) => named === full) ? [{ stage: id, path: source.path, ref }] : [];
  });
}

/**
 * A bundle has one commit, which was chosen at the deployment. Another one would silently be replaced by it.
 * @throws AppError
 */
function refuseOtherRefs(asked: readonly SentRepository[], deployed: readonly SentRepository[]): void {
  for (const { stage, path, ref } of asked) {
    const sent = deployed.find((each) => each.stage === stage && each.path === path);
    if (sent === undefined || sent.ref === ref) continue;
    throw new AppError(
      'usage',
      'cli/not-remote',
      `stage ${stage} works in \`${shorten(ref ?? '')}\` of its repository, and the deployment has only ${sent.ref === null ? 'the commit of its time' : `\`${shorten(sent.ref)}\``}`,
      'Write the URL of the repository in `git`, and allow it: voidbox deploy FILE --allow-git HOST/PATH',
    );
  }
}

/** Only its presence counts: it chooses the words of refusals. */
const NO_DELIVERY = { name: '', version: 0, delivery: '', deployer: null };

/**
 * Returns where the files and the repositories of a version are.
 * @throws AppError `api/invalid-request` for a folder that leads out of the version
 */
export function placeVersion({
  folder,
  specDir,
  bundles,
}: Pick<CompileRequest, 'folder' | 'specDir' | 'bundles'>): UploadPlaces {
  const baseDir = join(folder, specDir);
  return {
    baseDir: contains(folder, baseDir) ? baseDir : folder,
    uploads: [],
    bundles: placeBundles(bundles, folder, baseDir),
  };
}

function createCompileMachine(env: Environment, spec: string, cwd: string, folder: string): Machine {
  const refuse = (): Promise<never> => Promise.reject(new Error('a deployment is compiled without this'));
  return {
    env,
    cwd,
    readStdin: () => Promise.resolve(Buffer.from(spec)),
    confirm: () => Promise.resolve(null),
    stores: refuse,
    now: () => new Date(),
    confinedTo: folder,
    stackLink: () => Promise.resolve(null),
    warn: () => Promise.resolve(),
  };
}

function replaceFileNames(diagnostics: readonly Diagnostic[], request: CompileRequest): readonly Diagnostic[] {
  return diagnostics.map((each) => ({ ...each, file: replaceFileName(each.file, request) }));
}

/** `compileSpec` reads the spec as a text without a name. */
function replaceFileName(file: string, { specName, folder }: CompileRequest): string {
  if (file === 'spec' || file === STDIN_NAME) return specName;
  return contains(folder, file) ? file.slice(folder.length + 1) : file;
}

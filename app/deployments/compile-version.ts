/**
 * Compiles a version of a deployment, with the parameters of one delivery. The process of `compile-main.ts` runs this:
 * specs and payloads are hostile.
 */
import { join } from 'node:path';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { contains } from '../../domain/language/text/paths.ts';
import type { Environment } from '../../setup/environment.ts';
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
  const { spec, folder, params, allowMounts, allowGit } = request;
  const places = placeVersion(request);
  const machine = createCompileMachine(env, spec, places.baseDir, folder);
  const limits = { deployment: NO_DELIVERY, folder, allow: allowMounts, allowGit };
  const settlePlan = (written: Plan): Plan => {
    const moved = movePlan(written, places);
    refuseForStarter(moved, limits);
    return moved;
  };
  const options = {
    params,
    variables: {},
    mock: null,
    mockAgents: false,
    settlePlan,
    allowsMissingParams: request.isDeployed,
  };
  const { compiled, diagnostics } = await compileSpec(options, [], machine);
  return {
    kind: 'compiled',
    plan: toWire(compiled.plan),
    written: toWire(compiled.written),
    images: compiled.images,
    places: [...compiled.places],
    source: compiled.source,
    triggers: compiled.triggers,
    deployProblems: replaceFileNames(compiled.deployProblems, request),
    diagnostics: replaceFileNames(diagnostics, request),
  };
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

/** Starts a run from the text of a spec, for a caller without a command line. */
import { statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { createRunId } from '../../client/runs/new-id.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { MockRequest } from '../../domain/plan-rules/mocks.ts';
import { runIdProblem } from '../../domain/run/run-id.ts';
import { shorten } from '../../domain/units/quote.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { compileRun, type CompiledRun, type RepeatedOptions } from './compile-run.ts';
import { readSettings } from './host-settings.ts';
import { selectHostVariables } from './host-variables.ts';
import { parsePlaces } from './plan-addresses.ts';
import { STDIN_NAME } from './load-spec.ts';
import { resolveFolders } from './plan-mounts.ts';
import { LATEST } from '../runs/run-id.ts';
import { type BeforeStart, findTakenId, startRun, waitUntilAdmitted } from './start-run.ts';
import { refuseForStarter, type TokenStarter } from './token-rules.ts';

/** The name of the spec in diagnostics. */
const SPEC_NAME = 'spec';
/** The most generated ids that are tried. */
const MOST_IDS = 5;

export interface SpecRequest {
  /** YAML or JSON. */
  readonly spec: string;
  /** The absolute path of the folder where relative paths of the spec start; the run may mount it and folders below. */
  readonly baseDir: string;
  readonly params: Readonly<Record<string, string>>;
  /** The text that the first stages get; null: none. */
  readonly input: string | null;
  /** Null: a generated id. */
  readonly runId: string | null;
  /** The stages that return their `mock`; null: none. */
  readonly mock: MockRequest | null;
  /** The mock agent plays every agent. */
  readonly mockAgents: boolean;
  /** The only variables that the run may read. */
  readonly variables: Readonly<Record<string, string>>;
  /** Absolute paths of further folders that the run may mount. */
  readonly allowMounts: readonly string[];
  /** Repositories of the network that the run may fetch with the git login of this user, as HOST/PATH. */
  readonly allowGit: readonly string[];
  /** Changes the plan before it runs. Absent: the plan of the spec runs. */
  readonly adapt?: (plan: Plan) => Plan;
  /** The token that starts it, with `baseDir` as its folder; absent: the owner of the state folder. */
  readonly starter?: TokenStarter;
  /** As in `StartRequest`. */
  readonly beforeStart?: BeforeStart;
}

export interface StartedSpec {
  readonly runId: string;
  /** Warnings of the spec. */
  readonly diagnostics: readonly Diagnostic[];
}

/** A spec with mistakes, all of them. */
export class SpecRefusal extends AppError {
  readonly diagnostics: readonly Diagnostic[];

  constructor(diagnostics: readonly Diagnostic[]) {
    const mistakes = diagnostics.filter(({ severity }) => severity === 'error').length;
    super('usage', 'spec/invalid', `the spec has ${mistakes === 1 ? 'a mistake' : `${mistakes} mistakes`}`);
    this.name = 'SpecRefusal';
    this.diagnostics = diagnostics;
  }
}

/**
 * Compiles a spec and starts it. The run gets the variables of the request, and none of this process.
 * @param caller  its working folder and its standard input are not used
 * @throws SpecRefusal, AppError
 */
export async function startSpec(
  request: SpecRequest,
  onProgress: (line: string) => void,
  caller: Machine,
): Promise<StartedSpec> {
  const { spec, baseDir, runId: wanted, variables, input } = request;
  requireFolder('baseDir', baseDir);
  for (const folder of request.allowMounts) requireFolder('allowMounts', folder);
  refuseRunId(wanted);
  const allowMounts = resolveFolders(request.allowMounts, baseDir);
  const { adapt = (plan) => plan, starter, beforeStart } = request;
  const context: Machine = {
    ...caller,
    cwd: baseDir,
    readStdin: () => Promise.resolve(Buffer.from(spec)),
    ...(starter === undefined ? {} : { confinedTo: starter.folder }),
  };
  const settlePlan = (written: Plan): Plan => {
    const adapted = adapt(written);
    if (starter !== undefined) refuseForStarter(adapted, starter);
    return adapted;
  };
  const { compiled, diagnostics } = await compileSpec({ ...request, settlePlan }, allowMounts, context);
  const { plan } = compiled;
  const hostVariables = selectHostVariables(plan, new Set(), context, variables);
  const allowGit = parsePlaces(request.allowGit);
  const start = async (runId: string): Promise<ServerLink> =>
    await startRun(
      {
        ...compiled,
        from: null,
        runId,
        hostVariables,
        allowMounts,
        allowGit,
        input: input === null ? null : Buffer.from(input),
        ...(starter === undefined ? {} : { starter }),
        ...(beforeStart === undefined ? {} : { beforeStart }),
        mayAsk: false,
      },
      context,
      onProgress,
    );
  const makeId = (): string => createRunId(plan.name, context.now());
  const { runId, link } =
    wanted === null ? await startOnce(makeId, start) : { runId: wanted, link: await start(wanted) };
  await waitUntilAdmitted(runId, link, context);
  return { runId, diagnostics };
}

/** Starts with a generated id. The client did not choose the id, so another one is tried if a run has it already. */
export async function startOnce(
  makeId: () => string,
  start: (runId: string) => Promise<ServerLink>,
): Promise<{ readonly runId: string; readonly link: ServerLink }> {
  for (let tries = 1; ; tries += 1) {
    const runId = makeId();
    try {
      return { runId, link: await start(runId) };
    } catch (error) {
      if (findTakenId(error) !== runId || tries === MOST_IDS) throw error;
    }
  }
}

/**
 * Compiles the spec that `context.readStdin` returns, with `context.cwd` as its folder.
 * @throws SpecRefusal, AppError
 */
export async function compileSpec(
  {
    params,
    variables,
    mock,
    mockAgents,
    settlePlan,
    repeated,
    allowsMissingParams = false,
  }: Pick<SpecRequest, 'params' | 'variables' | 'mock' | 'mockAgents'> & SettlePlan,
  allow: readonly string[],
  context: Machine,
): Promise<{ readonly compiled: CompiledRun; readonly diagnostics: readonly Diagnostic[] }> {
  let diagnostics: readonly Diagnostic[] = [];
  const options = {
    params,
    settings: readSettings({ env: { ...context.env, variables } }),
    baseDir: context.cwd,
    mode: null,
    mock: () => mock,
    mockAgents,
    ...repeated,
    allowsMissingParams,
    allow,
    images: { given: {}, allow },
    ...(settlePlan === undefined ? {} : { settlePlan }),
    onNotice: (notice) => {
      if (notice.kind !== 'diagnostics') return Promise.resolve();
      diagnostics = notice.diagnostics.map((each) => (each.file === STDIN_NAME ? { ...each, file: SPEC_NAME } : each));
      return notice.isRefused ? Promise.reject(new SpecRefusal(diagnostics)) : Promise.resolve();
    },
  } satisfies Parameters<typeof compileRun>[1];
  return { compiled: await compileRun('-', options, context), diagnostics };
}

type SettlePlan = Pick<Parameters<typeof compileRun>[1], 'settlePlan'> & {
  /** The options of the earlier run, for a fork: they replace `mock` and `mockAgents`. Absent: the run is no fork. */
  readonly repeated?: RepeatedOptions;
  /** As in `SpecValues`. */
  readonly allowsMissingParams?: boolean;
};

/** @throws AppError `api/invalid-request` */
export function requireFolder(key: string, path: string): void {
  const found = isAbsolute(path) ? statSync(path, { throwIfNoEntry: false }) : undefined;
  if (found?.isDirectory() === true) return;
  const problem = !isAbsolute(path)
    ? 'is not an absolute path'
    : found === undefined
      ? 'does not exist'
      : 'is not a folder';
  throw new AppError('usage', 'api/invalid-request', `\`${key}\`: \`${shorten(path)}\` ${problem}`);
}

/**
 * URLs cannot contain `.` and `..` as an id, and clients remove both from paths.
 * @throws AppError `api/invalid-request`
 */
export function refuseRunId(runId: string | null): void {
  if (runId === null) return;
  const problem =
    runId === LATEST
      ? 'commands read it as the last started run'
      : ['.', '..'].includes(runId)
        ? 'no URL can name it'
        : runIdProblem(runId);
  if (problem !== null)
    throw new AppError('usage', 'api/invalid-request', `\`runId\`: \`${shorten(runId)}\` is not valid: ${problem}`);
}

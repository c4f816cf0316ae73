/** Starts the run of a delivery. Its id follows from the delivery's, so a second start is the same run. */
import { describeRun } from '../../client/runs/runs.ts';
import { nameRun } from '../../domain/delivery/deployment-name.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { retryOf } from '../../domain/errors/error-code.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { pickEventIds } from '../../domain/run/run-trigger.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import { cutText } from '../../domain/units/cut-text.ts';
import type { DeliveryResult, DeliveryRow, VersionRow } from '../../store/triggers.ts';
import { AppError } from '../app-error.ts';
import { describeError } from '../describe-error.ts';
import type { Machine } from '../machine.ts';
import { openRunsLink } from '../server-link.ts';
import { selectHostVariables } from '../start/host-variables.ts';
import { findTakenId, startRun } from '../start/start-run.ts';
import { SpecRefusal } from '../start/start-spec.ts';
import type { DeployingTools } from './deploying.ts';
import { requireCompiled } from './deploy.ts';

export interface DeliveredStart {
  readonly delivery: Pick<DeliveryRow, 'id' | 'deployment' | 'traceparent' | 'cloudEvent'>;
  readonly version: VersionRow;
  /** Parameters of the trigger and of the delivery. */
  readonly params: Readonly<Record<string, string>>;
  readonly input: Uint8Array;
  /** The artifact that is the input instead of `input`; null: none is. */
  readonly inputRef: DataRef | null;
}

export interface DeliveredTools extends Pick<DeployingTools, 'folders' | 'compiler' | 'readSecrets'> {
  readonly onProgress: (line: string) => void;
}

/** Never rejects for a start that failed: the result says whether a further try can help. */
export async function startDelivered(
  request: DeliveredStart,
  tools: DeliveredTools,
  machine: Machine,
): Promise<DeliveryResult> {
  try {
    await start(request, tools, machine);
    return { kind: 'started' };
  } catch (error) {
    const runId = nameRun(request.delivery.deployment, request.delivery.id);
    if (findTakenId(error) === runId) return await findEarlierStart(runId, machine);
    return await describeFailure(error);
  }
}

/** An earlier try has started the run, and its process died before it changed the row. Or a try is under way. */
async function findEarlierStart(runId: string, machine: Machine): Promise<DeliveryResult> {
  const { index } = await machine.stores();
  if (await index.has(runId)) return { kind: 'started' };
  try {
    const link = await openRunsLink(machine, { start: true });
    const found = await link?.briefly((client) => describeRun(client, runId));
    if (found !== undefined && found.state !== 'missing') return { kind: 'started' };
  } catch (error) {
    return await describeFailure(error);
  }
  return { kind: 'failed', code: 'api/run-exists', message: `another start of the run ${runId} is under way` };
}

async function start(
  { delivery, version, params, input, inputRef }: DeliveredStart,
  { folders, compiler, readSecrets, onProgress }: DeliveredTools,
  machine: Machine,
): Promise<void> {
  const { deployment, spec, specName, specDir, bundles, allowMounts, allowGit, mockAgents } = version;
  const folder = folders.locate(version.folder);
  const places = { spec, specName, folder, specDir, bundles, allowMounts, allowGit, mockAgents };
  const compiled = requireCompiled(
    await compiler.compile({
      ...places,
      params: { ...version.params, ...params },
      deployedParams: version.params,
      isDeployed: false,
      notify: null,
    }),
  );
  const plan = fromWire(compiled.plan);
  const secrets = await readSecrets(deployment, plan.hostVariables);
  const context: Machine = { ...machine, cwd: folder, confinedTo: folder };
  const link = await startRun(
    {
      plan,
      written: fromWire(compiled.written),
      mock: null,
      mockAgents: compiled.arePlayed,
      source: compiled.source,
      from: null,
      runId: nameRun(deployment, delivery.id),
      hostVariables: selectHostVariables(plan, new Set(), context, secrets),
      baseDir: folder,
      places: new Map(compiled.places),
      images: compiled.images,
      allowMounts: [],
      allowGit: [],
      input,
      inputRef,
      starter: {
        deployment: {
          name: deployment,
          version: version.version,
          delivery: delivery.id,
          deployer: version.deployer,
          ...pickEventIds(delivery),
        },
        allow: allowMounts,
        allowGit,
        folder,
      },
      mayAsk: false,
    },
    context,
    onProgress,
  );
  void link;
}

/** A mistake of the spec, of its parameters or of a permission stays one. */
async function describeFailure(error: unknown): Promise<DeliveryResult> {
  if (error instanceof SpecRefusal) {
    const mistakes = error.diagnostics.filter(({ severity }) => severity === 'error');
    const [first] = mistakes;
    const more = mistakes.length > 1 ? ` (and ${mistakes.length - 1} more)` : '';
    const place = first === undefined ? '' : `${first.file}:${first.line}:${first.column}: ${first.message}`;
    return { kind: 'refused', code: error.code, message: cutText(`${place}${more}`) };
  }
  const known = await describeError(error);
  if (known === null) return { kind: 'failed', code: 'api/bug', message: cutText((error as Error).message) };
  const message = cutText(known.remedy === null ? known.message : `${known.message}. ${known.remedy}`);
  const isLasting = error instanceof AppError ? error.fault === 'usage' : isCodedError(error) && isNever(error.code);
  return { kind: isLasting ? 'refused' : 'failed', code: known.code, message };
}

/** Temporal retries nothing here: a code that no activity retries and that the world did not cause. */
function isNever(code: Parameters<typeof retryOf>[0]): boolean {
  return retryOf(code) === 'never' && !code.startsWith('host/') && !code.startsWith('api/');
}

import { setTimeout as sleep } from 'node:timers/promises';
import type { RunRequest } from '../../activities/contract.ts';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { mockedStages, type MockRequest } from '../../domain/plan-rules/mocks.ts';
import { playedStages } from '../../domain/plan-rules/mock-agents.ts';
import { type Plan, PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { skillOf } from '../../domain/plan/work.ts';
import type { Reuse } from '../../domain/pipeline/reuse.ts';
import { describeOrigin, type RunOrigin } from '../../domain/run/origin.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import type { KnownImage } from '../../setup/images/images.ts';
import { resolveHostPieces, resolveOptionalPieces } from '../../setup/resolve.ts';
import { entryNamed } from '../../skill-kit/bundle/find-entry.ts';
import type { Stores } from '../../store/open-stores.ts';
import type { RunView } from '../../store/run-view.ts';
import { dirname } from 'node:path';
import { CLIENT_MARK, type ClientMark, SOURCE_RECORD, type SourceRecord } from '../../client/runs/client-record.ts';
import { cancelRun, describeRun, RunExistsError, startRun } from '../../client/runs/runs.ts';
import { usageError } from '../cli-error.ts';
import type { ContinuedPlan } from './continue-run.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { followWherever } from './follow.ts';
import { handOver } from './hand-over.ts';
import { describeMissingWorker } from './missing-worker.ts';
import { loginsTaken } from './agent-logins.ts';
import { extrasOf } from './plan-extras.ts';
import { makeDisks } from './plan-images.ts';
import type { MountPlace } from './load-spec.ts';
import { settleAddresses } from './plan-addresses.ts';
import { settleMounts } from './plan-mounts.ts';
import { printResult, resultText } from '../runs/print-result.ts';
import { toContinuedJson } from '../render/runs/continued.ts';
import { toOriginJson } from '../render/runs/reuse.ts';
import { renderRunEnd } from '../render/runs/run-end.ts';
import { toRunJson } from '../render/runs/run-json.ts';
import { typedRunId } from '../../domain/run/run-id.ts';
import { shownRunId, typedCommand } from '../runs/run-id.ts';
import { createRunDisplay, type RunDisplay } from './run-display.ts';
import { once, readRunInput } from './run-input.ts';
import { hasEndedAsService } from './service-end.ts';
import { openStateFolder } from '../../client/vms/state-folder.ts';
import { readHostId } from '../../client/vms/this-host.ts';
import { rememberSkillPaths } from '../../client/embedded/skill-paths.ts';
import { openServerLink, type ServerLink } from '../../client/temporal/server-link.ts';

/** How long `run -d` waits for the admission; a worker that starts takes a second or two. */
const ADMISSION_MS = 10_000;
const ADMISSION_POLL_MS = 20;
/** Of an id in a summary, of which Temporal takes 400 bytes. */
const MOST_ID_CHARACTERS = 40;
/** Record: the refs of an input and a plan that are on their way to the run. */
const INPUT_RECORD = 'input';

export interface RunPlanOptions {
  /** As it runs. */
  readonly plan: Plan;
  /** As its author wrote it; admission makes `plan` of it. */
  readonly written: Plan;
  /** The stages whose work is not done; null: none, or those of the earlier run. */
  readonly mock: MockRequest | null;
  /** Whether the mock agent plays the agents; null: as in the earlier run. */
  readonly mockAgents: boolean | null;
  /** What it was compiled of; null where that is not known. */
  readonly source: SourceRecord | null;
  /** The earlier run that it comes from; null: none. */
  readonly from: StartFrom | null;
  readonly runId: string;
  /** Values of the variables that the plan names. */
  readonly hostVariables: Readonly<Record<string, string>>;
  /** The spec's folder: the worker of this machine lets the run mount from it. */
  readonly baseDir: string;
  /** Where the spec names folders and files of this machine, by their full paths. */
  readonly places: ReadonlyMap<string, MountPlace>;
  /** Their disks are made where the cache has none. */
  readonly images: readonly KnownImage[];
  /** Folders that this run may mount and work in, absolute. */
  readonly allowMounts: readonly string[];
  /** Repositories of the network that it may fetch, as HOST/PATH. */
  readonly allowGit: readonly string[];
  /** As it was typed; see `readRunInput`. */
  readonly input: string | null;
  /** Start it and do not follow it. */
  readonly detach: boolean;
  readonly json: boolean;
  /** Events go to standard output as lines of JSON. */
  readonly events?: boolean;
}

export interface StartFrom {
  readonly origin: RunOrigin;
  /** As the command line counts; admission decides. */
  readonly reuse: Reuse;
  /** The agents that continue; null: none does. */
  readonly continued: ContinuedPlan | null;
  /** The plan and the input are those of the origin, so that the request names neither. */
  readonly isSamePlan: boolean;
}

/** Starts a run, with whatever of the machine and the stack is missing, and follows it to its end. */
export async function runPlan(options: RunPlanOptions, context: CliContext): Promise<ExitCode> {
  const display = createRunDisplay(context.stderr, context.advise);
  try {
    const link = await start(options, display, context);
    if (!options.detach) return await follow(options, link, display, context);
    await leave(options, link, context);
    await untilKept(options.runId, link, context);
    return EXIT.success;
  } finally {
    await display.close();
  }
}

async function start(
  {
    plan,
    written,
    mock,
    mockAgents,
    source,
    from,
    runId,
    hostVariables,
    baseDir,
    places,
    images,
    allowMounts,
    allowGit,
    input,
    json,
  }: RunPlanOptions,
  display: RunDisplay,
  context: CliContext,
): Promise<ServerLink> {
  const { env } = context;
  const onProgress = (line: string): void => display.note(line);
  openStateFolder(env.stateDir);
  const stores = await context.stores();
  try {
    // What was typed wrong is told before anything is fetched or started.
    if (await stores.index.has(runId)) throw new RunExistsError(runId);
    await stores.inspector.refuseSetAside(runId);
    // Another spec, as a fork has, gets no permission of the earlier one.
    const earlier = from?.origin.kind === 'retry' ? await readEarlierMark(from.origin.runId, stores) : null;
    const allow = [...new Set([...allowMounts, ...(earlier?.allow ?? [])])];
    const request = await requestOf({ written, mock, mockAgents, from, runId, input }, stores, context);
    // On your own Temporal server the worker's host has the pieces and the mounts, not the host that starts the run.
    let mark: ClientMark = { baseDir };
    if (!env.temporalConfigured) {
      await settleMounts({ plan, baseDir, allow, cwd: context.cwd, places }, env);
      const addresses = { plan, baseDir, allow: [...allowGit, ...(earlier?.allowGit ?? [])], json };
      mark = { baseDir, allow, allowGit: await settleAddresses(addresses, context) };
      // Mocked stages need nothing of this machine.
      if (plan.scopes.some((scope) => scope.sandbox.mode !== 'mock'))
        await resolveHostPieces(env, { install: true, onProgress });
      await resolveOptionalPieces(env, extrasOf(plan), { install: true, onProgress });
      rememberSkillPaths(env.stateDir, skillEntriesOf(plan), 'add');
    }
    await makeDisks(images, env, onProgress);
    for (const { owner, file } of loginsTaken(hostVariables, env))
      onProgress(`agents work by the login of ${owner} on this machine (${file}), without its refresh token`);
    const link = await openServerLink(context, { start: true, onProgress });
    if (link === null) throw new Error('the embedded stack was not started');
    // Its worker may not have taken it yet; its variables must not be overwritten by ours.
    if (plan.hostVariables.length > 0 && (await describeRun(link.client(), runId)).state !== 'missing')
      throw new RunExistsError(runId);
    // With a configured server the run may live on another host, and what is written here would never be removed.
    if (source !== null && !env.temporalConfigured) await stores.records.put(runId, SOURCE_RECORD, source);
    // A fork compiles the text again, and starts relative paths there.
    const isNamed = typeof source?.path === 'string' && dirname(source.path) !== baseDir;
    if (isNamed || readsHostFolders(plan)) await stores.marks.put(runId, CLIENT_MARK, mark);
    const summary = summaryOf(plan, from);
    // Where no worker has ever run on this state folder, none would read them, and nothing would remove them.
    const handedOver = env.temporalConfigured && readHostId(env.stateDir) === null ? {} : hostVariables;
    await handOver(stores.hostVariables, runId, handedOver, () => startRun(link.client(), { runId, request, summary }));
    return link;
  } catch (error) {
    if (error instanceof RunExistsError) throw usageError(error.message);
    await stores.records.drop(runId, INPUT_RECORD);
    await stores.records.drop(runId, SOURCE_RECORD);
    throw error;
  }
}

/** Reads the permissions that the user gave to the origin of this run. Null: this host has no record of them. */
async function readEarlierMark(runId: string, { marks }: Stores): Promise<Partial<ClientMark> | null> {
  return ((await marks.get(runId, CLIENT_MARK)) as Partial<ClientMark> | null | undefined) ?? null;
}

/** Folders, or addresses that are fetched as this user: the worker does either for its own user's runs alone. */
function readsHostFolders({ scopes, stages }: Plan): boolean {
  return (
    scopes.some((scope) => scope.sandbox.mounts.length > 0) ||
    stages.some(({ workspace }) => workspace !== undefined && workspace.from.kind !== 'stage')
  );
}

/** The embedded worker runs no other code than that of skills which its user has named: in a spec that is run, for one. */
function skillEntriesOf({ stages }: Plan): readonly string[] {
  const paths = stages.flatMap(({ work }) => skillOf(work)?.source.path ?? []);
  return [...new Set(paths.map(entryNamed))];
}

function summaryOf(plan: Plan, from: StartFrom | null): string {
  const { name, stages } = plan;
  const mocked = mockedStages(plan).length;
  const agents = playedStages(plan).length;
  const note = `${mocked === 0 ? '' : `, ${mocked} mocked`}${agents === 0 ? '' : ', mock agents'}`;
  const summary = `voidbox: ${name} (${stages.length} ${stages.length === 1 ? 'stage' : 'stages'}${note})`;
  if (from === null) return summary;
  const runId = [...from.origin.runId].slice(0, MOST_ID_CHARACTERS).join('');
  return `${summary}, ${describeOrigin({ ...from.origin, runId })}`;
}

/**
 * What the workflow is started with. A large input or plan is named in the run's records from here on: until admission does
 * it, `prune --artifacts-now` would not know that it is wanted.
 */
export async function requestOf(
  {
    written,
    mock,
    mockAgents,
    from,
    runId,
    input,
  }: Pick<RunPlanOptions, 'written' | 'mock' | 'mockAgents' | 'from' | 'runId' | 'input'>,
  { artifacts, records }: Stores,
  context: CliContext,
): Promise<RunRequest> {
  const { env } = context;
  const planPart = from?.isSamePlan === true ? {} : await planPartOf(written, artifacts, env.temporalConfigured);
  const read = input === null ? null : await readRunInput(input, artifacts, context);
  const refs = [
    ...(planPart.planRef === undefined ? [] : [planPart.planRef]),
    ...(read?.kind === 'ref' ? [read.ref] : []),
  ];
  // On a configured server the run may live on another host, and what is written here would never be removed.
  if (refs.length > 0 && !env.temporalConfigured) await records.put(runId, INPUT_RECORD, refs);
  return {
    ...planPart,
    ...(planPart.plan === undefined ? { name: written.name } : {}),
    ...(read === null ? {} : { input: read }),
    ...(from === null ? {} : { origin: from.origin }),
    ...(mock === null ? {} : { mock }),
    ...(mockAgents === true ? { mockAgents } : {}),
  };
}

/** A plan that is too large for history lies where the worker of this machine finds it. */
async function planPartOf(
  plan: Plan,
  artifacts: ArtifactStore,
  isElsewhere: boolean,
): Promise<Pick<RunRequest, 'plan' | 'planRef'>> {
  const wire = toWire(plan);
  const json = Buffer.from(JSON.stringify(wire));
  if (json.byteLength <= PLAN_LIMITS.inlinePlanBytes) return { plan: wire };
  if (isElsewhere)
    throw usageError(
      `the plan has ${json.byteLength} bytes; a plan sent to another machine may have at most ${PLAN_LIMITS.inlinePlanBytes}: keep long texts in mounted files`,
    );
  return { planRef: await artifacts.put(once(json), 'application/json') };
}

async function leave({ runId, json, from }: RunPlanOptions, link: ServerLink, context: CliContext): Promise<void> {
  const url = link.runUrl(runId);
  if (json) {
    await context.stdout.write(
      `${JSON.stringify({ runId, uiUrl: url, ...(from === null ? {} : { ...toOriginJson(from), ...toContinuedJson(from.continued) }) })}\n`,
    );
    return;
  }
  await context.stdout.write(`${shownRunId(runId)}\n`);
  await context.stderr.write(
    `${url === null ? '' : `Temporal UI: ${url}\n`}${context.advise(`Follow it: voidbox logs -f ${typedRunId(runId)}`)}\n`,
  );
  const missing = await describeMissingWorker(link, Date.now());
  if (missing !== null) await context.stderr.write(context.advise(`${missing}\n`));
}

/** The worker keeps the first event of a run when it admits it: before that, the next command would not know the run. */
async function untilKept(runId: string, link: ServerLink, context: CliContext): Promise<void> {
  if (!link.isEmbedded) return;
  const { index } = await context.stores();
  const untilMs = Date.now() + ADMISSION_MS;
  while (!(await index.has(runId)) && Date.now() < untilMs) await sleep(ADMISSION_POLL_MS);
}

async function follow(
  { runId, json, events = false }: RunPlanOptions,
  link: ServerLink,
  display: RunDisplay,
  context: CliContext,
): Promise<ExitCode> {
  const url = link.runUrl(runId);
  display.note(`run ${shownRunId(runId)}${url === null ? '' : ` · ${url}`}`);
  display.note(context.advise(`follow it elsewhere: voidbox logs -f ${typedRunId(runId)}`));
  const detach = new AbortController();
  let interrupts = 0;
  const listening = context.onInterrupt(() => {
    interrupts += 1;
    if (interrupts > 1) return detach.abort();
    display.note('cancelling the run; Ctrl-C again does not wait for its end');
    display.onCtrlC('again does not wait');
    void cancelWhilePossible(runId, link, display, detach.signal);
  });
  try {
    const view = await followWherever({
      runId,
      stores: await context.stores(),
      stateDir: context.env.stateDir,
      link,
      signal: detach.signal,
      onEvent: async (event, now) => {
        if (events) await context.stdout.write(`${JSON.stringify(event)}\n`);
        await display.event(event, now);
      },
      onTrouble: (message) => display.note(`retrying: ${message}`),
      onNotice: (message) => display.note(context.advise(message)),
    });
    await display.close();
    // Its worker removes them, unless that is on another host.
    if (view.outcome !== null && view.seq === 0) await (await context.stores()).hostVariables.drop(runId);
    if (view.outcome === null) {
      await context.stderr.write(
        context.advise(`Not waiting any longer; the run was asked to stop. See: voidbox status ${typedRunId(runId)}\n`),
      );
      return EXIT.interrupted;
    }
    return await conclude(view, interrupts > 0, json, context);
  } finally {
    listening.dispose();
  }
}

/** The stack may be dead at the very moment of Ctrl-C: following brings it back, cancelling waits for that. */
async function cancelWhilePossible(
  runId: string,
  link: ServerLink,
  display: RunDisplay,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await link.briefly((client) => cancelRun(client, runId));
      return;
    } catch (error) {
      display.note(`cannot cancel yet: ${(error as Error).message}`);
      await sleep(1_000);
    }
  }
}

async function conclude(view: RunView, interrupted: boolean, json: boolean, context: CliContext): Promise<ExitCode> {
  const stores = await context.stores();
  const { artifacts } = stores;
  const output = view.outcome?.output ?? null;
  const isElsewhere = view.seq === 0;
  const isServiceEnd = await hasEndedAsService(view, stores);
  if (json) {
    const outputText = output === null || isElsewhere ? null : await resultText(output, artifacts);
    await context.stdout.write(`${JSON.stringify({ ...toRunJson(view), outputText })}\n`);
  } else {
    const lines = renderRunEnd(view, {
      style: context.stderr.style,
      nowMs: Date.now(),
      advise: context.advise,
      folder: stores.local?.folderOf(view.runId) ?? null,
    });
    await context.stderr.write(`\n${lines.join('\n')}\n`);
    if (view.state === 'succeeded' && output !== null && isElsewhere) {
      await context.stderr.write(
        context.advise(
          `Its result (${formatBytes(output.sizeBytes)}) is on host ${view.hostId}: voidbox result ${typedRunId(view.runId)}\n`,
        ),
      );
    } else if ((view.state === 'succeeded' || isServiceEnd) && output !== null) {
      await printResult(
        output,
        artifacts,
        context,
        context.advise(typedCommand('result', view.runId, { options: '-o FILE' })),
      );
    }
  }
  if (view.state === 'succeeded' || isServiceEnd) return EXIT.success;
  return interrupted && view.state === 'cancelled' ? EXIT.interrupted : EXIT.runFailed;
}

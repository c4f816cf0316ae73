import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunRequest } from '../activities/contract.ts';
import type { ArtifactStore } from '../activities/ports/artifacts.ts';
import { type Plan, PLAN_LIMITS } from '../domain/plan/plan.ts';
import { toWire } from '../domain/plan/wire.ts';
import { formatBytes } from '../domain/units/bytes.ts';
import { makeOwnFolder } from '../setup/own-folder.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import type { Stores } from '../store/open-stores.ts';
import { refuseSetAside, runFolderName } from '../store/file/run-folder.ts';
import type { RunView } from '../store/projection.ts';
import { CLIENT_MARK, type ClientMark } from '../client/client-record.ts';
import { cancelRun, describeRun, RunExistsError, startRun } from '../client/runs.ts';
import { environmentError, usageError } from './cli-error.ts';
import type { CliContext } from './context.ts';
import { EXIT, type ExitCode } from './exit-code.ts';
import { followWherever } from './follow.ts';
import { handOver } from './hand-over.ts';
import { printResult, resultText } from './print-result.ts';
import { renderRunEnd } from './render/run-end.ts';
import { toRunJson } from './render/run-json.ts';
import { shownRunId, typedRunId } from './run-id.ts';
import { createRunDisplay, type RunDisplay } from './run-display.ts';
import { once, readRunInput } from './run-input.ts';
import { openServerLink, type ServerLink } from '../client/server-link.ts';

/** Record: the refs of an input and a plan that are on their way to the run. */
const INPUT_RECORD = 'input';

export interface RunPlanOptions {
  readonly plan: Plan;
  readonly runId: string;
  /** Values of the variables that the plan names. */
  readonly hostVariables: Readonly<Record<string, string>>;
  /** The spec's folder: the worker of this machine lets the run mount from it. */
  readonly baseDir: string;
  /** As it was typed; see `readRunInput`. */
  readonly input: string | null;
  /** Start it and do not follow it. */
  readonly detach: boolean;
  readonly json: boolean;
}

/** Starts a run, with whatever of the machine and the stack is missing, and follows it to its end. */
export async function runPlan(options: RunPlanOptions, context: CliContext): Promise<ExitCode> {
  const display = createRunDisplay(context.stderr);
  try {
    const link = await start(options, display, context);
    return options.detach ? await leave(options, link, context) : await follow(options, link, display, context);
  } finally {
    await display.close();
  }
}

async function start(
  { plan, runId, hostVariables, baseDir, input }: RunPlanOptions,
  display: RunDisplay,
  context: CliContext,
): Promise<ServerLink> {
  const { env } = context;
  const onProgress = (line: string): void => display.note(line);
  makeOwnFolder({ path: env.stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });
  const stores = await context.stores();
  try {
    // What was typed wrong is told before anything is fetched or started.
    if (await stores.index.has(runId)) throw new RunExistsError(runId);
    refuseSetAside(env.stateDir, runFolderName(runId));
    const request = await requestOf(plan, runId, input, stores, context);
    // On a server of one's own the worker's host has the pieces and the mounts, not the host that starts the run.
    if (!env.temporalConfigured) {
      await checkMounts(plan, baseDir);
      if (plan.scopes.some((scope) => scope.sandbox.mode !== 'mock'))
        await resolveHostPieces(env, { install: true, onProgress });
    }
    const link = await openServerLink(context, { start: true, onProgress });
    if (link === null) throw new Error('the embedded stack was not started');
    // Its worker may not have taken it yet; its variables must not be overwritten by ours.
    if (plan.hostVariables.length > 0 && (await describeRun(link.client(), runId)).state !== 'missing')
      throw new RunExistsError(runId);
    if (plan.scopes.some((scope) => scope.sandbox.mounts.length > 0))
      await stores.marks.put(runId, CLIENT_MARK, { baseDir } satisfies ClientMark);
    const summary = `voidbox: ${plan.name} (${plan.stages.length} ${plan.stages.length === 1 ? 'stage' : 'stages'})`;
    await handOver(stores.hostVariables, runId, hostVariables, () =>
      startRun(link.client(), { runId, request, summary }),
    );
    return link;
  } catch (error) {
    if (error instanceof RunExistsError) throw usageError(error.message);
    await stores.records.drop(runId, INPUT_RECORD);
    throw error;
  }
}

/**
 * What the workflow is started with. A large input or plan is named in the run's records from here on: until admission does
 * it, `prune --artifacts-now` would not know that it is wanted.
 */
async function requestOf(
  plan: Plan,
  runId: string,
  input: string | null,
  { artifacts, records }: Stores,
  context: CliContext,
): Promise<RunRequest> {
  const { env } = context;
  const planPart = await planPartOf(plan, artifacts, env.temporalConfigured);
  const read = input === null ? null : await readRunInput(input, artifacts, context);
  const refs = [
    ...(planPart.planRef === undefined ? [] : [planPart.planRef]),
    ...(read?.kind === 'ref' ? [read.ref] : []),
  ];
  // On a configured server the run may live on another host, and what is written here would never be removed.
  if (refs.length > 0 && !env.temporalConfigured) await records.put(runId, INPUT_RECORD, refs);
  return { ...planPart, ...(read === null ? {} : { input: read }) };
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
      `the plan has ${json.byteLength} bytes; one that travels to another machine may have ${PLAN_LIMITS.inlinePlanBytes}: keep long texts in files that are mounted`,
    );
  return { planRef: await artifacts.put(once(json), 'application/json') };
}

/** Admission looks again, on the host that it is about; here a wrong path costs no run. */
async function checkMounts(plan: Plan, baseDir: string): Promise<void> {
  for (const { source } of plan.scopes.flatMap((scope) => scope.sandbox.mounts)) {
    const hostPath = resolve(baseDir, source.path);
    const there = await stat(hostPath).catch((error: NodeJS.ErrnoException) => error);
    if (!(there instanceof Error)) continue;
    const reason = there.code === 'ENOENT' ? 'it is not there' : there.message;
    throw environmentError(
      'cli/mount-missing',
      `the spec mounts ${hostPath}, which cannot be read: ${reason}`,
      `Make it, or mend \`host\` of the mount; a relative one stands below the spec's folder, ${baseDir}`,
    );
  }
}

async function leave({ runId, json }: RunPlanOptions, link: ServerLink, context: CliContext): Promise<ExitCode> {
  const url = link.runUrl(runId);
  if (json) {
    await context.stdout.write(`${JSON.stringify({ runId, uiUrl: url })}\n`);
    return EXIT.success;
  }
  await context.stdout.write(`${shownRunId(runId)}\n`);
  await context.stderr.write(
    `${url === null ? '' : `Temporal UI: ${url}\n`}${context.advise(`Follow it: voidbox logs -f ${typedRunId(runId)}`)}\n`,
  );
  return EXIT.success;
}

async function follow(
  { runId, json }: RunPlanOptions,
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
      onEvent: (event, now) => display.event(event, now),
      onTrouble: (message) => display.note(`trouble, trying on: ${message}`),
      onNotice: (message) => display.note(message),
    });
    await display.close();
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
  const { artifacts } = await context.stores();
  const output = view.outcome?.output ?? null;
  const isElsewhere = view.seq === 0;
  if (json) {
    const outputText = output === null || isElsewhere ? null : await resultText(output, artifacts);
    await context.stdout.write(`${JSON.stringify({ ...toRunJson(view), outputText })}\n`);
  } else {
    const lines = renderRunEnd(view, { style: context.stderr.style, nowMs: Date.now(), advise: context.advise });
    await context.stderr.write(`\n${lines.join('\n')}\n`);
    if (view.state === 'succeeded' && output !== null && isElsewhere) {
      await context.stderr.write(
        context.advise(
          `Its result (${formatBytes(output.sizeBytes)}) is on host ${view.hostId}: voidbox result ${typedRunId(view.runId)}\n`,
        ),
      );
    } else if (view.state === 'succeeded' && output !== null) {
      await printResult(output, artifacts, context, context.advise(`voidbox result ${typedRunId(view.runId)} -o FILE`));
    }
  }
  if (view.state === 'succeeded') return EXIT.success;
  return interrupted && view.state === 'cancelled' ? EXIT.interrupted : EXIT.runFailed;
}

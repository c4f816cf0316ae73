import { describeLowDisk } from '../render/host/disk.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatBytes } from '../../domain/units/bytes.ts';
import type { RunView } from '../../store/run-view.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import type { ConnectedRun } from '../../app/control/run-control.ts';
import { resultText } from '../../app/runs/result-text.ts';
import { printResult } from '../runs/print-result.ts';
import type { ContinuedJson } from '../../app/json/continued-json.ts';
import type { OriginJson } from '../../app/json/origin-json.ts';
import { renderRunEnd } from '../render/runs/run-end.ts';
import { toRunJson } from '../../app/json/run-json.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { formatRunId, renderCommand } from '../../app/runs/run-id.ts';
import { createRunDisplay, type RunDisplay } from './run-display.ts';
import { hasEndedAsService } from '../../app/runs/service-end.ts';

export interface RunPlanOptions {
  readonly runId: string;
  /** The results that it takes over of an earlier run; null: there is no earlier run. */
  readonly shown: (OriginJson & Partial<ContinuedJson>) | null;
  /** Starts it, and first everything that its machine lacks for it. */
  readonly start: (onProgress: (line: string) => void) => Promise<ConnectedRun>;
  /** Start it and do not follow it. */
  readonly detach: boolean;
  readonly json: boolean;
  /** Events go to standard output as lines of JSON. */
  readonly events?: boolean;
}

/** Starts a run and follows it to its end. */
export async function runPlan(options: RunPlanOptions, context: CliContext): Promise<ExitCode> {
  const display = createRunDisplay(context.stderr, context.advise);
  try {
    const run = await options.start((line) => display.note(line));
    if (!options.detach) return await follow(options, run, display, context);
    await leave(options, run, context);
    await run.waitUntilAdmitted();
    return EXIT.success;
  } finally {
    await display.close();
  }
}

async function leave({ runId, json, shown }: RunPlanOptions, run: ConnectedRun, context: CliContext): Promise<void> {
  const { url } = run;
  if (json) {
    await context.stdout.write(`${JSON.stringify({ runId, uiUrl: url, ...shown })}\n`);
    return;
  }
  await context.stdout.write(`${formatRunId(runId)}\n`);
  await context.stderr.write(
    `${url === null ? '' : `Temporal UI: ${url}\n`}${context.advise(`Follow it: voidbox logs -f ${quoteRunId(runId)}`)}\n`,
  );
  const missing = await run.explainWait();
  if (missing !== null) await context.stderr.write(context.advise(`${missing}\n`));
}

async function follow(
  { runId, json, events = false }: RunPlanOptions,
  run: ConnectedRun,
  display: RunDisplay,
  context: CliContext,
): Promise<ExitCode> {
  const { url } = run;
  display.note(`run ${formatRunId(runId)}${url === null ? '' : ` · ${url}`}`);
  display.note(context.advise(`follow it elsewhere: voidbox logs -f ${quoteRunId(runId)}`));
  const detach = new AbortController();
  let interrupts = 0;
  const listening = context.onInterrupt(() => {
    interrupts += 1;
    if (interrupts > 1) return detach.abort();
    display.note('cancelling the run; Ctrl-C again does not wait for its end');
    display.onCtrlC('again does not wait');
    void cancelWhilePossible(run, display, detach.signal);
  });
  try {
    const view = await run.follow({
      signal: detach.signal,
      onEvent: async (event, now) => {
        if (events) await context.stdout.write(`${JSON.stringify(event)}\n`);
        await display.event(event, now);
      },
      onTrouble: (message) => display.note(`retrying: ${message}`),
      onNotice: (message) => display.note(context.advise(message)),
      onLowDisk: (disk) => display.note(`retrying: ${describeLowDisk(disk, context.env.stateDir)}`),
    });
    await display.close();
    if (view.outcome === null) {
      await context.stderr.write(
        context.advise(`Not waiting any longer; the run was asked to stop. See: voidbox status ${quoteRunId(runId)}\n`),
      );
      return EXIT.interrupted;
    }
    return await conclude(view, interrupts > 0, json, context);
  } finally {
    listening.dispose();
  }
}

/** Cancels a run. If the stack dies at that moment, following restarts it, and the cancel waits for that. */
async function cancelWhilePossible(run: ConnectedRun, display: RunDisplay, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      return await run.cancel();
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
          `Its result (${formatBytes(output.sizeBytes)}) is on host ${view.hostId}: voidbox result ${quoteRunId(view.runId)}\n`,
        ),
      );
    } else if ((view.state === 'succeeded' || isServiceEnd) && output !== null) {
      await printResult(
        output,
        artifacts,
        context,
        context.advise(renderCommand('result', view.runId, { options: '-o FILE' })),
      );
    }
  }
  if (view.state === 'succeeded' || isServiceEnd) return EXIT.success;
  return interrupted && view.state === 'cancelled' ? EXIT.interrupted : EXIT.runFailed;
}

/** Runs a stage with items: begins the list, keeps windows open, and has the results merged. */
import {
  CancellationScope,
  ChildWorkflowCancellationType,
  ChildWorkflowFailure,
  executeChild,
  isCancellation,
  ParentClosePolicy,
  proxyActivities,
  sleep,
  TerminatedFailure,
} from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import type { Activities, HistoryLimit, UpstreamOutputs } from '../../activities/contract.ts';
import { attemptsOfItem, itemsInWindow, listsOf, stagesOfItem } from '../../domain/pipeline/item-plan.ts';
import { type MachineEach, type MachineStage, machineToWire } from '../../domain/pipeline/machine-plan.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { ACTIVITY_OPTIONS } from '../activity-options.ts';
import { ITEMS_WORKFLOW_TYPE, itemsWorkflowId } from '../messages.ts';
import { type InstancePath, formatStageName } from '../../domain/run/instance.ts';
import { lastStartOf } from '../run/history-limit.ts';
import type { RunQueues } from '../run/queues.ts';
import { summaryOf } from '../summary.ts';
import type { CallGate } from './call-gate.ts';
import type { ItemsEnd, ItemsRequest } from './request.ts';
import { type Split, splitItems, splitItemsWithin, type Window } from './windows.ts';

const { beginItems, endItems } = proxyActivities<Activities>(ACTIVITY_OPTIONS.beginItems);

/**
 * A window that a person or a program terminated is started again under its id. Items that have ended answer from the
 * log.
 */
const STARTS_OF_WINDOW = 3;
/** After a reset, the window of the previous execution may still be open. */
const TAKEN_ID_WAIT_MS = 5_000;

export interface ItemsOfStage {
  readonly runId: string;
  readonly queues: RunQueues;
  readonly stage: MachineStage;
  /** The item that contains the list; empty: the list belongs to the run itself. */
  readonly instance: InstancePath;
  /** The run's first execution id, which a reset keeps. */
  readonly executionId: string;
  /** Limits for all lists within the items of a window together; absent: the list belongs to the run itself. */
  readonly gates?: { readonly calls: CallGate; readonly windows: CallGate } | undefined;
  readonly attempt: number;
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
  /** The behaviour of the run. */
  readonly behaviour: number;
  /** The setting of the run. */
  readonly recordsBoots: boolean;
  /** The limit of the run, which its windows use too. Absent, for a list within an item: no window ends early. */
  readonly historyLimit?: HistoryLimit | undefined;
  onProgress(progress: ItemsProgress): void;
}

/** The progress of the items that the run knows of. Each window knows more details of its own items. */
export interface ItemsProgress {
  readonly items: number;
  readonly windows: number;
  /** Windows that have ended, and items that failed in these. */
  readonly ended: number;
  readonly failed: number;
}

/** Resolves when no work of it runs any longer. @throws ActivityFailure as `runStage` does */
export async function runItems(items: ItemsOfStage): Promise<StageResult> {
  const outer = CancellationScope.current();
  const { runId, queues, stage, attempt, upstream, events } = items;
  const name = formatStageName(stage.id, items.instance);
  const place = items.instance.length === 0 ? {} : { instance: items.instance };
  const begin = (): Promise<{ readonly count: number }> =>
    beginItems.executeWithOptions(
      { ...ACTIVITY_OPTIONS.beginItems, taskQueue: queues.host, summary: summaryOf(`${name}: list of items`) },
      [{ runId, stage: stage.id, ...place, attempt, upstream, events }],
    );
  const { count } = await callThroughGate(items.gates?.calls, begin);
  const broken = await doWindows(items, count);
  return await CancellationScope.nonCancellable(async () => {
    if (broken !== null) throw broken.error;
    const summary = summaryOf(`${name}: results of ${count} items`);
    return callThroughGate(items.gates?.calls, () =>
      endItems.executeWithOptions({ ...ACTIVITY_OPTIONS.endItems, taskQueue: queues.host, summary }, [
        { runId, stage: stage.id, ...place, attempt, cancelled: outer.consideredCancelled },
      ]),
    );
  });
}

function callThroughGate<T>(gate: CallGate | undefined, call: () => Promise<T>): Promise<T> {
  return gate === undefined ? call() : gate.run(call);
}

/** @returns why a window could not end, other than by a cancel */
async function doWindows(items: ItemsOfStage, count: number): Promise<{ readonly error: unknown } | null> {
  const { failFast, allowFailures } = items.stage.each as MachineEach;
  const { windows: planned, shares } = splitOf(items, count);
  const windows = [...planned];
  const children = new CancellationScope();
  let next = 0;
  let ended = 0;
  let failed = 0;
  const reportProgress = (): void => items.onProgress({ items: count, windows: windows.length, ended, failed });
  reportProgress();
  let broken: { readonly error: unknown } | null = null;
  const lane = async (slots: number): Promise<void> => {
    while (next < windows.length && !children.consideredCancelled) {
      const window = windows[next]!;
      next += 1;
      try {
        const end = await doWindow(items, window, slots, failFast ? Math.max(0, allowFailures - failed) : null);
        failed += end.failed;
        if (end.next !== undefined) windows.push({ number: windows.length, from: end.next, to: window.to });
      } catch (error) {
        if (!isCancellation(error)) broken ??= { error: error instanceof ChildWorkflowFailure ? error.cause : error };
        children.cancel();
      }
      ended += 1;
      reportProgress();
      if (failFast && failed > allowFailures) children.cancel();
    }
  };
  await children.run(() => Promise.all(shares.map(lane)));
  return broken;
}

function splitOf({ stage, instance }: ItemsOfStage, count: number): Split {
  const { maxParallel } = stage.each as MachineEach;
  const attempts = attemptsOfItem(stage);
  if (instance.length > 0) return splitItemsWithin(count, attempts, maxParallel);
  return splitItems(count, stagesOfItem(stage), maxParallel, itemsInWindow(attempts));
}

/**
 * The slots of a window that may end early, and its last start. Items for which its history has no room never run at
 * the same time.
 */
function limitSlots({ stage, instance, historyLimit }: ItemsOfStage, share: number): Partial<ItemsRequest> {
  if (instance.length > 0 || historyLimit === undefined) return {};
  const attempts = attemptsOfItem(stage);
  const slots = Math.min(share, itemsInWindow(attempts));
  return { slots, lastStart: lastStartOf(historyLimit, slots, attempts) };
}

async function doWindow(
  items: ItemsOfStage,
  { number, from, to }: Window,
  slots: number,
  mostFailures: number | null,
): Promise<ItemsEnd> {
  const { runId, queues, stage, instance, attempt, executionId, gates, upstream, behaviour, recordsBoots } = items;
  const { part, ...each } = stage.each as MachineEach;
  const request: ItemsRequest = {
    runId,
    // The events that it waits for have happened.
    stage: { ...stage, after: [], takes: [], each },
    ...(part === undefined ? {} : { part: machineToWire(part), leaseQueue: queues.lease }),
    ...(instance.length === 0 ? {} : { instance }),
    ...(attempt === 1 ? {} : { attempt }),
    ...(part === undefined || listsOf(part).length === 0 ? {} : { executionId }),
    from,
    to,
    behaviour,
    recordsBoots,
    slots,
    ...limitSlots(items, slots),
    mostFailures,
    upstream,
    hostQueue: queues.host,
    storeQueue: queues.store,
  };
  const workflowId = itemsWorkflowId(executionId, stage.id, number, instance, attempt);
  const name = formatStageName(stage.id, instance);
  const child = (): Promise<ItemsEnd> =>
    executeChild<(of: ItemsRequest) => Promise<ItemsEnd>>(ITEMS_WORKFLOW_TYPE, {
      workflowId,
      args: [request],
      // The window ends with its parent, however the parent ends.
      parentClosePolicy: ParentClosePolicy.TERMINATE,
      cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
      staticSummary: summaryOf(`${name}: items ${from} to ${to - 1}`),
    });
  for (let starts = 1; ;) {
    try {
      return await callThroughGate(gates?.windows, child);
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) {
        await sleep(TAKEN_ID_WAIT_MS, { summary: summaryOf(`${name}: an earlier window still runs`) });
        continue;
      }
      const wasTerminated = error instanceof ChildWorkflowFailure && error.cause instanceof TerminatedFailure;
      if (!wasTerminated || starts === STARTS_OF_WINDOW) throw error;
      starts += 1;
    }
  }
}

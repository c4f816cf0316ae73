/** Figures of readers that follow one run: CPU and memory of the service for each, and the delay of an event. */
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { Stores } from '../../store/stores.ts';
import { type Arm, processCpuMs, residentMib } from '../measure.ts';
import type { ApiProcess } from './api-process.ts';
import { openReader, type Reader } from './reader.ts';

const EVENTS = 200;
const PAUSE_MS = 5;
const OPEN_AT_ONCE = 50;
/** Events for readers that do not read. */
const FLOOD_EVENTS = 256;
const FLOOD_BYTES = 64 * 1024;
const SETTLE_MS = 1_000;

export interface ReadersBench {
  readonly api: ApiProcess;
  readonly stores: Stores;
}

let runs = 0;

async function leaveRun({ stores }: ReadersBench): Promise<string> {
  runs += 1;
  const runId = `followed-${runs}`;
  await stores.events.append(runId, [createEvent(0, 'begins')]);
  return runId;
}

function createEvent(at: number, message: string): NewRunEvent {
  return { id: `n${at}`, atMs: Date.now(), body: { type: 'notice', level: 'info', message } };
}

async function openReaders({ api }: ReadersBench, runId: string, count: number): Promise<readonly Reader[]> {
  const readers: Reader[] = [];
  while (readers.length < count) {
    const some = Math.min(OPEN_AT_ONCE, count - readers.length);
    readers.push(...(await Promise.all(Array.from({ length: some }, () => openReader(api.socket, runId)))));
  }
  await Promise.all(readers.map((reader) => reader.waitFor(1)));
  return readers;
}

/** CPU of the service for an event at one of so many readers. */
export function createReadersArm(bench: ReadersBench, count: number): Arm<'cpuUs'> {
  const measureRound = async () => {
    const runId = await leaveRun(bench);
    const readers = await openReaders(bench, runId, count);
    const before = processCpuMs(bench.api.pid);
    for (let at = 1; at <= EVENTS; at += 1) {
      await bench.stores.events.append(runId, [createEvent(at, 'x'.repeat(200))]);
      await sleep(PAUSE_MS);
    }
    await Promise.all(readers.map((reader) => reader.waitFor(EVENTS + 1)));
    const cpuMs = processCpuMs(bench.api.pid) - before;
    for (const reader of readers) reader.end();
    await sleep(SETTLE_MS);
    return { cpuUs: (cpuMs * 1_000) / EVENTS / count };
  };
  return { name: `${count} readers of one run`, round: measureRound };
}

/** Memory of the service for each of so many readers. */
export function createMemoryArm(bench: ReadersBench, count: number): Arm<'kib'> {
  const measureRound = async () => {
    const runId = await leaveRun(bench);
    const [first] = await openReaders(bench, runId, 1);
    await sleep(SETTLE_MS);
    const before = residentMib(bench.api.pid);
    const readers = await openReaders(bench, runId, count);
    await bench.stores.events.append(runId, [createEvent(1, 'x')]);
    await Promise.all(readers.map((reader) => reader.waitFor(2)));
    await sleep(SETTLE_MS);
    const kib = ((residentMib(bench.api.pid) - before) * 1_024) / count;
    for (const reader of [first!, ...readers]) reader.end();
    await sleep(SETTLE_MS);
    return { kib };
  };
  return { name: `${count} readers that read`, round: measureRound };
}

/** Memory of the service for a reader that does not read while 16 MiB of events arrive. */
export function createStalledArm(bench: ReadersBench, count: number): Arm<'kib'> {
  const measureRound = async () => {
    const runId = await leaveRun(bench);
    const readers = await openReaders(bench, runId, count);
    for (const reader of readers) reader.pause();
    await sleep(SETTLE_MS);
    const before = residentMib(bench.api.pid);
    for (let at = 1; at <= FLOOD_EVENTS; at += 1)
      await bench.stores.events.append(runId, [createEvent(at, 'x'.repeat(FLOOD_BYTES))]);
    await sleep(SETTLE_MS);
    const kib = ((residentMib(bench.api.pid) - before) * 1_024) / count;
    for (const reader of readers) reader.end();
    await sleep(SETTLE_MS);
    return { kib };
  };
  return { name: `${count} readers that do not read`, round: measureRound };
}

/** The time from the start of an append until the reader has the event: 95 of 100 events are faster. */
export function createDelayArm(bench: ReadersBench): Arm<'p95Ms'> {
  const measureRound = async () => {
    const runId = await leaveRun(bench);
    const [reader] = await openReaders(bench, runId, 1);
    const delays: number[] = [];
    for (let at = 1; at <= EVENTS; at += 1) {
      const sentMs = performance.now();
      await bench.stores.events.append(runId, [createEvent(at, 'x'.repeat(200))]);
      await reader!.waitFor(at + 1);
      delays.push(reader!.arrivedMs[at]! - sentMs);
    }
    reader!.end();
    return { p95Ms: findP95(delays) };
  };
  return { name: 'an event at a reader of the API', round: measureRound };
}

/** The same at the follower of the file store, in this process. */
export function createFollowerArm(bench: ReadersBench): Arm<'p95Ms'> {
  const measureRound = async () => {
    const runId = await leaveRun(bench);
    const over = new AbortController();
    const events = bench.stores.reader.follow(runId, 0, over.signal)[Symbol.asyncIterator]();
    await events.next();
    const delays: number[] = [];
    for (let at = 1; at <= EVENTS; at += 1) {
      const sentMs = performance.now();
      const arrived = events.next();
      await bench.stores.events.append(runId, [createEvent(at, 'x'.repeat(200))]);
      await arrived;
      delays.push(performance.now() - sentMs);
    }
    over.abort();
    await events.return?.();
    return { p95Ms: findP95(delays) };
  };
  return { name: 'an event at a follower of the file store', round: measureRound };
}

export function findP95(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN;
}

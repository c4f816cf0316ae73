/**
 * One scan of a watched folder. A file counts when two scans agree on its facts. Its key is its path and its hash, which
 * the store keeps: a restart or a second service starts nothing twice.
 */
import { Buffer } from 'node:buffer';
import type { FileHandle } from 'node:fs/promises';
import type { FolderSource } from '../../../domain/delivery/trigger.ts';
import type { FilePattern } from '../../../domain/language/read/file-pattern.ts';
import { type FileFacts, writeFilePayload, writeRefusedPayload } from '../../../domain/sources/file-payload.ts';
import { findFileProblem, type FOLDER_LIMITS, showPath } from '../../../domain/sources/file-rules.ts';
import type { SeenEvent, SourceEvent, SourceId, SourceStore } from '../../../store/ports/sources.ts';
import { acceptOnce, type AcceptOnceTools, type ReceivedEvent } from '../../deliveries/accept.ts';
import {
  computeFingerprint,
  describeState,
  computePlaceHash,
  computeTextHash,
  isSameContent,
  joinNames,
  readPathText,
} from './file-state.ts';
import { Fingerprints } from './fingerprints.ts';
import { takeFile, type TakeTools } from './take-file.ts';
import { type FoundEntry, walkFolder } from './walk-folder.ts';

export interface ScannedFolder {
  readonly id: SourceId;
  /** The version whose trigger it is, for new deliveries. */
  readonly version: number;
  readonly isOrdered: boolean;
  readonly source: Pick<FolderSource, 'existing'>;
  readonly pattern: FilePattern;
  /** Without links. */
  readonly path: string;
  /** Files that have not changed since this time were there before the trigger began. */
  readonly sinceMs: number;
}

export type ScanLimits = Readonly<Record<keyof typeof FOLDER_LIMITS, number>>;

export interface ScanTools extends TakeTools, AcceptOnceTools {
  readonly sources: SourceStore;
  /** @throws CodedError `host/disk-full` if the room of the disk is reserved for runs */
  readonly requireRoom: () => void;
  readonly limits: ScanLimits;
}

/** The memory of a process from scan to scan, without which a scan asks the store about each file. */
export interface ScanMemory {
  readonly salt: Buffer;
  /** Files that one scan has found (1), and files about which nothing is left to do (2). */
  files: Fingerprints;
}

export interface ScanResult {
  /** Another scan must agree on some files, or the limits of this one were reached. */
  readonly isUnfinished: boolean;
  /** Why not all files were looked at; null: all were. */
  readonly problem: string | null;
}

/** The files about which the store is asked at once. */
const BATCH = 200;
/** The content of a file that was there before its trigger. */
const EXISTING = 'existing';

const FOUND = 1;
const DONE = 2;

interface Candidate {
  readonly entry: FoundEntry;
  readonly path: Buffer;
  readonly fingerprint: bigint;
  readonly place: string;
  readonly state: string;
}

/** @throws CodedError of the stores, and errors of the disk of the folder; a later scan then tries again */
export async function scanFolder(
  root: FileHandle,
  folder: ScannedFolder,
  memory: ScanMemory,
  tools: ScanTools,
): Promise<ScanResult> {
  const scan = new Scan(root, folder, tools);
  const walk = walkFolder(root, folder.pattern, tools);
  let batch: Candidate[] = [];
  for await (const entry of walk.entries) {
    const path = joinNames(entry.names);
    const fingerprint = computeFingerprint(entry, path, memory.salt);
    const mark = memory.files.read(fingerprint);
    if (mark !== FOUND) {
      scan.files.write(fingerprint, mark === DONE ? DONE : FOUND);
      scan.isUnfinished ||= mark !== DONE;
      continue;
    }
    batch.push({
      entry,
      path,
      fingerprint,
      place: computePlaceHash(folder.path, path),
      state: describeState(entry.stats),
    });
    if (batch.length < BATCH) continue;
    await scan.process(batch);
    batch = [];
  }
  await scan.process(batch);
  // A scan that ended early has not seen the other files.
  if (!tools.signal.aborted) memory.files = scan.files;
  return { isUnfinished: scan.isUnfinished, problem: walk.problem };
}

class Scan {
  readonly files = new Fingerprints();
  isUnfinished = false;
  readonly #root: FileHandle;
  readonly #folder: ScannedFolder;
  readonly #tools: ScanTools;
  #bytesLeft: number;
  #deliveriesLeft: number;

  constructor(root: FileHandle, folder: ScannedFolder, tools: ScanTools) {
    this.#root = root;
    this.#folder = folder;
    this.#tools = tools;
    this.#bytesLeft = tools.limits.scanBytes;
    this.#deliveriesLeft = tools.limits.scanDeliveries;
  }

  async process(batch: readonly Candidate[]): Promise<void> {
    if (batch.length === 0) return;
    const { sources, nowMs, signal } = this.#tools;
    const { id } = this.#folder;
    const seen = new Map<string, SeenEvent[]>();
    for (const event of await sources.findSeen(
      id,
      batch.map(({ place }) => place),
    ))
      seen.set(event.place, [...(seen.get(event.place) ?? []), event]);
    const known: SeenEvent[] = [];
    const skipped: SourceEvent[] = [];
    for (const candidate of batch) {
      if (signal.aborted) return;
      const { place, state } = candidate;
      const same = findSame(seen.get(place) ?? [], state);
      if (same !== null) known.push({ ...same, state });
      else if (this.#isExisting(candidate, seen.has(place))) skipped.push({ ...id, place, state, content: EXISTING });
      else if (!(await this.#start(candidate))) {
        this.files.write(candidate.fingerprint, FOUND);
        this.isUnfinished = true;
        continue;
      }
      this.files.write(candidate.fingerprint, DONE);
    }
    await sources.skip(skipped, nowMs());
    await sources.renew(id, known, nowMs());
  }

  #isExisting({ entry }: Candidate, isKnown: boolean): boolean {
    const { source, sinceMs } = this.#folder;
    return source.existing === 'skip' && !isKnown && Number(entry.stats.ctimeMs) <= sinceMs;
  }

  /** @returns false if a later scan must look at the file again */
  async #start({ entry, path, place, state }: Candidate): Promise<boolean> {
    const text = readPathText(path);
    const size = Number(entry.stats.size);
    if (this.#deliveriesLeft === 0 || (entry.kind === 'file' && this.#isBeyondBytes(size))) return false;
    const facts: FileFacts = {
      path: showPath(text ?? path.toString('utf8')),
      sizeBytes: size,
      modifiedAtMs: Number(entry.stats.mtimeMs),
    };
    const problem = findFileProblem({ kind: entry.kind, path: text, pathBytes: path.length, sizeBytes: size });
    if (problem !== null) return await this.#refuse(facts, problem, { place, state });
    this.#tools.requireRoom();
    this.#bytesLeft -= size;
    const taken = await takeFile(this.#root, entry, this.#tools);
    if (taken.kind === 'changed') return false;
    if (taken.kind === 'refused') return await this.#refuse(facts, taken.problem, { place, state });
    const { ref } = taken;
    await this.#accept({ place, state, content: ref.sha256 }, writeFilePayload(facts, ref));
    return true;
  }

  /** A file that fits into no scan with others is read by a scan of its own. */
  #isBeyondBytes(size: number): boolean {
    const { limits } = this.#tools;
    return size <= limits.fileBytes && size > this.#bytesLeft && this.#bytesLeft < limits.scanBytes;
  }

  /** The content of a refused file is not read, so its state is its key. */
  async #refuse(
    facts: FileFacts,
    problem: string,
    at: { readonly place: string; readonly state: string },
  ): Promise<true> {
    const content = computeTextHash(`refused\0${problem}\0${at.state}`);
    const message = `${facts.path}: ${problem}`;
    const refusal = { code: 'trigger/refused-file', message };
    await this.#accept({ ...at, content }, writeRefusedPayload(facts, problem), refusal);
    return true;
  }

  async #accept(event: SeenEvent, body: string, refusal?: ReceivedEvent['refusal']): Promise<void> {
    const { id, version, isOrdered } = this.#folder;
    const { sources, nowMs } = this.#tools;
    const accepted = await acceptOnce(
      { ...id, ...event },
      {
        ...id,
        version,
        isOrdered,
        contentType: 'application/json',
        body: Buffer.from(body),
        senderId: computeTextHash(`${event.place}\0${event.content}`),
        ...(refusal === undefined ? {} : { refusal }),
      },
      this.#tools,
    );
    if (accepted.isNew) this.#deliveriesLeft -= 1;
    // The same content under other facts, such as a new time.
    else await sources.renew(id, [event], nowMs());
  }
}

/** Returns the event of a file that has not changed since it was seen; null: it has. */
function findSame(seen: readonly SeenEvent[], state: string): SeenEvent | null {
  const isSame = (event: SeenEvent): boolean =>
    event.content === EXISTING ? isSameContent(event.state, state) : event.state === state;
  return seen.find(isSame) ?? null;
}

/** The port of sources that the service reads itself: what it has seen of them, also after the deliveries are deleted. */
import type { NewDelivery } from './new-delivery.ts';

/** A trigger whose source the service reads. */
export interface SourceId {
  readonly deployment: string;
  readonly trigger: string;
}

/** An event of a source. A second one with the same place and content is the same event. */
export interface SourceEvent extends SourceId {
  /** SHA-256 in hex: of the path of a file, or of the id of a row. */
  readonly place: string;
  /** At most 64 characters: the SHA-256 of a file in hex, or a word for another state of the place. */
  readonly content: string;
  /** At most 255 characters: the facts by which a source finds without reading that nothing has changed. */
  readonly state: string;
}

export type SeenEvent = Pick<SourceEvent, 'place' | 'content' | 'state'>;

export interface SourceProblem extends SourceId {
  readonly code: string;
  readonly message: string;
  readonly sinceMs: number;
}

/** The most places of one call of `findSeen`, and the most events of one call of `renew`. */
export const MOST_PLACES = 500;

export interface SourceStore {
  /**
   * Records that a trigger reads a place, such as a folder. A trigger that read another place before begins again.
   * @param sinceMs  the time from which it reads, if it begins
   * @returns the time at which it began
   */
  begin(id: SourceId, place: string, sinceMs: number): Promise<number>;
  /** Forgets where all other triggers began, and their problems. Their events stay. */
  keepOnly(ids: readonly SourceId[]): Promise<void>;
  /**
   * Commits a delivery together with its event, unless the event was seen before.
   * @throws CodedError `api/access-unavailable`, `host/disk-full`
   */
  acceptOnce(event: SourceEvent, delivery: NewDelivery): Promise<AcceptedOnce>;
  /** Records that events were seen and start nothing. */
  skip(events: readonly SourceEvent[], nowMs: number): Promise<void>;
  /** Returns everything that was seen at the places. */
  findSeen(id: SourceId, places: readonly string[]): Promise<readonly SeenEvent[]>;
  /** Replaces the states of events that were seen, and begins the time again after which they are forgotten. */
  renew(id: SourceId, events: readonly SeenEvent[], nowMs: number): Promise<void>;
  /** Records why a source cannot be read; null: it can. A problem keeps its first time. */
  report(
    id: SourceId,
    problem: { readonly code: string; readonly message: string } | null,
    nowMs: number,
  ): Promise<void>;
  listProblems(deployment: string): Promise<readonly SourceProblem[]>;
  /** Forgets events that were last seen `SOURCE_KEPT_MS` ago. */
  sweep(nowMs: number): Promise<void>;
}

export interface AcceptedOnce {
  readonly isNew: boolean;
  /** The delivery of the event. Null: it started nothing. */
  readonly delivery: string | null;
}

/** An event that no look has found for so long is forgotten. */
export const SOURCE_KEPT_MS = 90 * 24 * 60 * 60_000;

/** Where a worker stands in what the door of a VM tells. */
import { NOTHING_READ, type ToldNotice } from '../../domain/run/door-notice.ts';
import type { Redactor } from '../../domain/security/redactor.ts';

export type DoorListener = (notice: ToldNotice) => void;

/** What this worker has read of a VM's notices, and the values that must not stand in their events. */
export class NoticeCursor {
  read = NOTHING_READ;
  readonly redactors = new Set<Redactor>();
  /** Called with each notice of the door, also with notices that an earlier worker stored. */
  readonly listeners = new Set<DoorListener>();
  #last: Promise<unknown> = Promise.resolve();

  /** One reader at a time: each goes on where the one before it stopped. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work, work);
    this.#last = next.catch(() => undefined);
    return next;
  }
}

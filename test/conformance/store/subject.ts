import { afterEach } from 'vitest';
import type { Stores } from '../../../store/stores.ts';

export interface StoresSubject {
  readonly name: string;
  /** Makes a new, empty place for stores; its end removes all of it. */
  place(): Promise<{ readonly location: string; dispose(): Promise<void> }>;
  /** Opens other stores on a place, like another process. */
  open(location: string): Promise<Stores>;
  /** Changes the record `plan` of a run into something that no writer wrote. */
  damage(location: string, runId: string): Promise<void>;
}

export interface OpenedPlace {
  readonly location: string;
  readonly stores: Stores;
  /** Other stores on the same place. */
  another(): Promise<Stores>;
}

/** Call it inside a `describe`: it closes and removes what a test opens. */
export function usePlaces(subject: StoresSubject): () => Promise<OpenedPlace> {
  const ends: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  });
  return async () => {
    const { location, dispose } = await subject.place();
    ends.push(dispose);
    const another = async (): Promise<Stores> => {
      const stores = await subject.open(location);
      ends.push(() => stores.close());
      return stores;
    };
    return { location, stores: await another(), another };
  };
}

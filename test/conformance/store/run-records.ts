/** The promises of every store of records, marks and host variables, whatever its backend. */
import { describe, expect, test } from 'vitest';
import type { Stores } from '../../../store/stores.ts';
import { type StoresSubject, usePlaces } from './subject.ts';

const LONG_NAME = 'x'.repeat(221);

export function describeRunRecords(subject: StoresSubject): void {
  describe(`${subject.name}: records of runs`, () => {
    const open = usePlaces(subject);

    test('a record is replaced as a whole, and read by another store', async () => {
      const { stores, another } = await open();
      await stores.records.put('r', 'notes', { first: 1, list: [1, 2] });
      await stores.records.put('r', 'notes', { second: 'two' });
      expect(await (await another()).records.get('r', 'notes')).toEqual({ second: 'two' });
    });

    test('an absent record is null, and dropping it changes nothing', async () => {
      const { stores } = await open();
      expect(await stores.records.get('r', 'notes')).toBeNull();
      await stores.records.drop('r', 'notes');
      await stores.records.put('r', 'notes', [1]);
      await stores.records.drop('r', 'notes');
      expect(await stores.records.get('r', 'notes')).toBeNull();
    });

    test('records of runs and of names are kept apart, whatever text they are', async () => {
      const { stores } = await open();
      const places = [
        ['a/b', 'x/0/1'],
        ['a', 'b/x/0/1'],
        ['a%2Fb', '.hidden'],
        ['実'.repeat(300), '..'],
      ] as const;
      for (const [runId, name] of places) await stores.records.put(runId, name, `${runId} ${name}`);
      for (const [runId, name] of places) expect(await stores.records.get(runId, name)).toBe(`${runId} ${name}`);
    });

    test.each([
      ['', 'notes'],
      ['x'.repeat(1_001), 'notes'],
      ['r', ''],
      ['r', LONG_NAME],
    ])('a run or a record that has no possible name is refused: %#', async (runId, name) => {
      const { stores } = await open();
      await expect(stores.records.put(runId, name, 1)).rejects.toMatchObject({ code: 'store/io' });
      await expect(stores.records.create(runId, name, 1)).rejects.toMatchObject({ code: 'store/io' });
    });

    test('a record is created once, and a second writer changes nothing', async () => {
      const { stores, another } = await open();
      expect(await stores.records.create('r', 'notes', { by: 'first' })).toBe(true);
      expect(await (await another()).records.create('r', 'notes', { by: 'second' })).toBe(false);
      expect(await stores.records.create('r', 'notes', { by: 'third' })).toBe(false);
      expect(await stores.records.get('r', 'notes')).toEqual({ by: 'first' });
      await stores.records.drop('r', 'notes');
      expect(await stores.records.create('r', 'notes', { by: 'fourth' })).toBe(true);
    });

    test('one of several writers at once creates a record, and all others read it', async () => {
      const { stores, another } = await open();
      const writers = [stores, await another(), await another()];
      for (let round = 0; round < 20; round += 1) {
        const name = `notes ${round}`;
        const made = await Promise.all(
          writers.flatMap(({ records }, by) =>
            [0, 1].map(async (call) => {
              const mine = { by, call, text: 'x'.repeat(10_000) };
              const isMine = await records.create('r', name, mine);
              // A writer that lost finds the whole record at once.
              return { isMine, mine, found: await records.get('r', name) };
            }),
          ),
        );
        const winners = made.filter(({ isMine }) => isMine);
        expect(winners).toHaveLength(1);
        for (const { found } of made) expect(found).toEqual(winners[0]!.mine);
      }
    });

    test('marks are kept apart from other runs, and absent ones are null', async () => {
      const { stores, another } = await open();
      await stores.marks.put('r', 'client', { baseDir: '/a' });
      await stores.marks.putOfVm('r', 'vm s/0', { prepared: true });
      const { marks } = await another();
      expect(await marks.get('r', 'client')).toEqual({ baseDir: '/a' });
      expect(await marks.getOfVm('r', 'vm s/0')).toEqual({ prepared: true });
      await marks.drop('r', 'client');
      await marks.drop('none', 'client');
      expect(await stores.marks.get('r', 'client')).toBeNull();
      for (const [runId, name] of [
        ['other', 'client'],
        ['r', 'vm s/1'],
      ] as const) {
        expect(await marks.get(runId, name)).toBeNull();
        expect(await marks.getOfVm(runId, name)).toBeNull();
      }
    });

    test('host variables of a run have the key of the start that put them', async () => {
      const { stores, another } = await open();
      expect(await stores.hostVariables.read('r')).toEqual({ variables: {}, startKey: null });
      await stores.hostVariables.put('r', { TOKEN: 'a' }, 'key');
      const { hostVariables }: Stores = await another();
      expect(await hostVariables.read('r')).toEqual({ variables: { TOKEN: 'a' }, startKey: 'key' });
      expect(await hostVariables.get('r')).toEqual({ TOKEN: 'a' });
      await stores.hostVariables.put('r', { TOKEN: 'b' });
      expect(await hostVariables.read('r')).toEqual({ variables: { TOKEN: 'b' }, startKey: null });
    });

    test('host variables of a run are replaced, and gone once they were dropped', async () => {
      const { stores, another } = await open();
      expect(await stores.hostVariables.get('r')).toEqual({});
      await stores.hostVariables.put('r', { TOKEN: 'a', OTHER: 'b' });
      await stores.hostVariables.put('r', { TOKEN: 'c' });
      const { hostVariables }: Stores = await another();
      expect(await hostVariables.get('r')).toEqual({ TOKEN: 'c' });
      expect(await hostVariables.get('other')).toEqual({});
      await hostVariables.drop('r');
      await hostVariables.drop('r');
      expect(await stores.hostVariables.get('r')).toEqual({});
    });
  });
}

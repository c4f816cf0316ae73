/** The promises of every store of secrets. A store's own test file calls these tests. */
import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { AccessStore } from '../../store/access.ts';
import {
  MOST_SECRET_BYTES,
  MOST_SECRETS,
  type NewSecret,
  SEAL_BYTES,
  type SealedValue,
  type SecretChange,
  type SecretStore,
} from '../../store/triggers.ts';

export interface SecretSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;
const KEY = 'a'.repeat(16);
const OTHER_KEY = 'b'.repeat(16);
const CHANGE: SecretChange = { nowMs: NOW_MS, keyIds: [KEY] };
const BOTH_KEYS: SecretChange = { nowMs: NOW_MS, keyIds: [KEY, OTHER_KEY] };

function seal(keyId = KEY, sizeBytes = 5): SealedValue {
  return { keyId, bytes: new Uint8Array(randomBytes(sizeBytes + SEAL_BYTES)) };
}

function make(name: string, deployment: string | null = null, value = seal()): NewSecret {
  return { name, deployment, value };
}

export function testSecrets({ name, open }: SecretSubject): void {
  describe(`secrets ${name}`, () => {
    let store: SecretStore;

    beforeEach(async () => {
      const opened = await open();
      store = opened.triggers.secrets;
      onTestFinished(() => opened.close());
    });

    testValues(() => store);
    testRotations(() => store);
    testKeys(() => store);
  });
}

function testValues(store: () => SecretStore): void {
  test('a list has all secrets in the order of their bytes, and no value', async () => {
    const ids = [
      ['b', null],
      ['B', 'x'],
      ['a', 'web'],
      ['a', null],
      ['a', 'Web'],
    ] as const;
    await store().put(
      ids.map(([name, deployment]) => make(name, deployment)),
      CHANGE,
    );
    const rows = await store().list();
    expect(rows.map(({ name, deployment }) => [name, deployment])).toEqual([
      ['B', 'x'],
      ['a', null],
      ['a', 'Web'],
      ['a', 'web'],
      ['b', null],
    ]);
    expect(rows[0]).toEqual({
      name: 'B',
      deployment: 'x',
      keyId: KEY,
      createdAtMs: NOW_MS,
      changedAtMs: NOW_MS,
      previousUntilMs: null,
    });
  });

  test('a deployment finds its own secrets and those for all, each with its bytes', async () => {
    const [own, all, foreign] = [make('A', 'web'), make('A'), make('A', 'other')];
    await store().put([own, all, foreign, make('B')], CHANGE);
    const found = await store().select(['A', 'constructor'], 'web');
    expect(found.map(({ deployment, value }) => ({ deployment, value }))).toEqual([
      { deployment: null, value: all.value },
      { deployment: 'web', value: own.value },
    ]);
    expect((await store().select(['A'], 'third')).map(({ deployment }) => deployment)).toEqual([null]);
    expect(await store().select([], 'web')).toEqual([]);
  });

  test('a second value replaces the first one, and keeps the time of creation', async () => {
    await store().put([make('A')], CHANGE);
    const second = make('A');
    const changed = await store().put([second], { ...CHANGE, nowMs: NOW_MS + 5 });
    expect(changed).toMatchObject({ kind: 'changed', rows: [{ createdAtMs: NOW_MS, changedAtMs: NOW_MS + 5 }] });
    expect(await store().select(['A'], 'web')).toMatchObject([{ value: second.value, previous: null }]);
  });

  test('the largest value is kept as it is', async () => {
    const large = make('A', null, seal(KEY, MOST_SECRET_BYTES));
    await store().put([large], CHANGE);
    expect((await store().select(['A'], 'web'))[0]!.value).toEqual(large.value);
  });

  test('secrets beyond the limit are refused together, and one that exists can still be replaced', async () => {
    const many = Array.from({ length: MOST_SECRETS - 1 }, (_, index) => make(`N${index}`));
    await store().put(many, CHANGE);
    expect(await store().put([make('A'), make('B')], CHANGE)).toEqual({ kind: 'full' });
    expect(await store().select(['A', 'B'], 'web')).toEqual([]);
    expect(await store().put([make('A'), make('N1')], CHANGE)).toMatchObject({ kind: 'changed' });
    expect(await store().put([make('A')], CHANGE)).toMatchObject({ kind: 'changed' });
    expect(await store().put([make('B')], CHANGE)).toEqual({ kind: 'full' });
    expect(await store().list()).toHaveLength(MOST_SECRETS);
  });

  test('a deletion is of all named secrets or of none', async () => {
    await store().put([make('A'), make('A', 'web'), make('B')], CHANGE);
    const [all, own, absent] = [
      { name: 'A', deployment: null },
      { name: 'A', deployment: 'web' },
      { name: 'A', deployment: 'other' },
    ];
    expect(await store().delete([all, absent])).toEqual({ kind: 'absent', ids: [absent] });
    expect(await store().list()).toHaveLength(3);
    expect(await store().delete([all, own])).toMatchObject({ kind: 'changed', rows: [all, own] });
    expect((await store().list()).map(({ name }) => name)).toEqual(['B']);
  });
}

function testRotations(store: () => SecretStore): void {
  const previousUntilMs = NOW_MS + 1_000;

  test('a rotation keeps the value before, and a second one only the latest before it', async () => {
    const values = [make('A'), make('A'), make('A')];
    await store().put([values[0]!], CHANGE);
    await store().rotate([values[1]!], { ...CHANGE, nowMs: NOW_MS + 1, previousUntilMs });
    const changed = await store().rotate([values[2]!], { ...CHANGE, nowMs: NOW_MS + 2, previousUntilMs });
    expect(changed).toMatchObject({
      kind: 'changed',
      rows: [{ createdAtMs: NOW_MS, changedAtMs: NOW_MS + 2, previousUntilMs }],
    });
    expect(await store().select(['A'], 'web')).toMatchObject([
      { value: values[2]!.value, previous: values[1]!.value, previousUntilMs },
    ]);
  });

  test('a rotation is of all named secrets or of none', async () => {
    await store().put([make('A')], CHANGE);
    const absent = make('A', 'web');
    expect(await store().rotate([make('A'), absent], { ...CHANGE, previousUntilMs })).toEqual({
      kind: 'absent',
      ids: [{ name: 'A', deployment: 'web' }],
    });
    expect((await store().list())[0]!.previousUntilMs).toBeNull();
  });

  test('a replaced value ends the value before it', async () => {
    await store().put([make('A')], CHANGE);
    await store().rotate([make('A')], { ...CHANGE, previousUntilMs });
    await store().put([make('A')], CHANGE);
    expect(await store().select(['A'], 'web')).toMatchObject([{ previous: null, previousUntilMs: null }]);
  });

  test('values before a rotation are deleted at their end, and no earlier one', async () => {
    await store().put([make('A'), make('B')], CHANGE);
    await store().rotate([make('A')], { ...CHANGE, previousUntilMs: NOW_MS + 10 });
    await store().rotate([make('B')], { ...CHANGE, previousUntilMs: NOW_MS + 11 });
    await store().dropPrevious(NOW_MS + 10);
    const found = await store().select(['A', 'B'], 'web');
    expect(found.map(({ previous }) => previous === null)).toEqual([true, false]);
    expect(found.map((each) => each.previousUntilMs)).toEqual([null, NOW_MS + 11]);
  });
}

function testKeys(store: () => SecretStore): void {
  const foreign = { kind: 'foreign-keys', keyIds: [KEY] };

  test('a caller without the key of each stored value changes nothing', async () => {
    await store().put([make('A')], CHANGE);
    const change = { nowMs: NOW_MS, keyIds: [OTHER_KEY] };
    expect(await store().put([make('A', null, seal(OTHER_KEY))], change)).toEqual(foreign);
    expect(await store().rotate([make('A')], { ...change, previousUntilMs: NOW_MS })).toEqual(foreign);
    expect((await store().list())[0]!.keyId).toBe(KEY);
  });

  test('a value before a rotation needs its key too', async () => {
    await store().put([make('A')], CHANGE);
    await store().rotate([make('A', null, seal(OTHER_KEY))], { ...BOTH_KEYS, previousUntilMs: NOW_MS + 1 });
    expect(await store().put([make('B')], { nowMs: NOW_MS, keyIds: [OTHER_KEY] })).toEqual(foreign);
  });

  test('secrets with another key are found and sealed again, and their times stay', async () => {
    await store().put([make('A'), make('B'), make('C', null, seal(OTHER_KEY))], BOTH_KEYS);
    await store().rotate([make('B', null, seal(OTHER_KEY))], { ...BOTH_KEYS, previousUntilMs: NOW_MS + 9 });
    const found = await store().listOfOtherKeys(OTHER_KEY, 9);
    expect(found.map(({ name }) => name)).toEqual(['A', 'B']);
    expect(await store().listOfOtherKeys(OTHER_KEY, 1)).toHaveLength(1);
    const sealed = { value: seal(OTHER_KEY), previous: seal(OTHER_KEY) };
    expect(await store().replaceSealed(found[0]!, { ...sealed, previous: null })).toBe(true);
    expect(await store().replaceSealed(found[1]!, sealed)).toBe(true);
    expect(await store().listOfOtherKeys(OTHER_KEY, 9)).toEqual([]);
    const [, second] = await store().select(['A', 'B'], 'web');
    expect(second).toEqual({ ...found[1], ...sealed, keyId: OTHER_KEY });
  });

  test('a value that is dropped while it is sealed again has no time', async () => {
    await store().put([make('A')], CHANGE);
    await store().rotate([make('A')], { ...CHANGE, previousUntilMs: NOW_MS + 9 });
    const [found] = await store().listOfOtherKeys(OTHER_KEY, 9);
    await store().replaceSealed(found!, { value: seal(OTHER_KEY), previous: null });
    expect((await store().list())[0]!.previousUntilMs).toBeNull();
  });

  test('a secret that has changed since it was read is not sealed again', async () => {
    await store().put([make('A'), make('B')], CHANGE);
    const [first, second] = await store().listOfOtherKeys(OTHER_KEY, 9);
    const newer = make('A');
    await store().put([newer], CHANGE);
    await store().delete([{ name: 'B', deployment: null }]);
    const sealed = { value: seal(OTHER_KEY), previous: null };
    expect(await store().replaceSealed(first!, sealed)).toBe(false);
    expect(await store().replaceSealed(second!, sealed)).toBe(false);
    expect((await store().select(['A', 'B'], 'web')).map(({ value }) => value)).toEqual([newer.value]);
  });
}

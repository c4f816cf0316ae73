import { describe, expect, test } from 'vitest';
import { durabilityOf, readEnvironment } from './environment.ts';
import { SetupError } from './setup-error.ts';

describe('readEnvironment', () => {
  test('a variable that is set to nothing counts as not set', () => {
    const bare = { HOME: '/home/me' };
    const emptied = {
      ...bare,
      VOIDBOX_STATE_DIR: '',
      VOIDBOX_CACHE_DIR: '',
      XDG_STATE_HOME: '',
      XDG_CACHE_HOME: '',
      VOIDBOX_QEMU: '',
      VOIDBOX_KERNEL_KIND: '',
      VOIDBOX_BOOT_TIMEOUT_MS: '',
      VOIDBOX_ORPHAN_TIMEOUT_MS: '',
      VOIDBOX_DURABILITY: '',
      VOIDBOX_SNAPSHOTS: '',
      VOIDBOX_SNAPSHOTS_MAX_MB: '',
      VOIDBOX_PREPARED_MAX_MB: '',
      TEMPORAL_ADDRESS: '',
      TEMPORAL_PROFILE: '',
      TEMPORAL_NAMESPACE: '',
      NO_COLOR: '',
    };
    expect({ ...readEnvironment(emptied), variables: {} }).toEqual({ ...readEnvironment(bare), variables: {} });
    expect(readEnvironment(emptied)).toMatchObject({
      stateDir: '/home/me/.local/state/voidbox',
      cacheDir: '/home/me/.cache/voidbox',
      temporalConfigured: false,
      noColor: false,
      isDumbTerminal: false,
    });
  });

  test.each([
    'TEMPORAL_ADDRESS',
    'TEMPORAL_NAMESPACE',
    'TEMPORAL_API_KEY',
    'TEMPORAL_PROFILE',
    'TEMPORAL_CONFIG_FILE',
    'TEMPORAL_TLS',
    'TEMPORAL_TLS_SERVER_CA_CERT_PATH',
  ])('%s is enough to name a server of your own', (name) => {
    expect(readEnvironment({ [name]: 'x', TEMPORAL_UI_URL: 'y', TEMPORAL_DEBUG: '1' })).toMatchObject({
      temporalConfigured: true,
      temporalVariables: [name],
    });
  });

  test('other variables of Temporal do not name a server', () => {
    expect(readEnvironment({ TEMPORAL_UI_URL: 'y', TEMPORAL_DEBUG: '1', TEMPORAL_CODEC_ENDPOINT: 'z' })).toMatchObject({
      temporalConfigured: false,
      temporalVariables: [],
    });
  });

  test.each([
    ['VOIDBOX_KERNEL_KIND', 'debain'],
    ['VOIDBOX_VMM_CPU', 'Host'],
    ['VOIDBOX_WARM', 'base:512x1'],
    ['VOIDBOX_BOOT_TIMEOUT_MS', '30s'],
    ['VOIDBOX_BOOT_TIMEOUT_MS', '0'],
    ['VOIDBOX_ORPHAN_TIMEOUT_MS', '15m'],
    ['VOIDBOX_ORPHAN_TIMEOUT_MS', '9999'],
    ['VOIDBOX_DURABILITY', 'disk'],
    ['VOIDBOX_SNAPSHOTS', 'none'],
    ['VOIDBOX_SNAPSHOTS_MAX_MB', '127'],
    ['VOIDBOX_SNAPSHOTS_MAX_MB', '2 GB'],
    ['VOIDBOX_PREPARED_MAX_MB', '0'],
    ['VOIDBOX_PREPARED_MAX_MB', '2 GB'],
  ])('%s=%s is rejected instead of using the default', (name, value) => {
    expect(() => readEnvironment({ HOME: '/home/me', [name]: value })).toThrow(SetupError);
    expect(() => readEnvironment({ HOME: '/home/me', [name]: value })).toThrow(`${name} is \`${value}\``);
  });

  test('a service on another machine is read with its token, and not shown to the message of an error', () => {
    expect(readEnvironment({}).service).toBeNull();
    const VOIDBOX_SERVER = 'https://build:7443';
    expect(readEnvironment({ VOIDBOX_SERVER, VOIDBOX_TOKEN: 'sesame\n' }).service).toEqual({
      name: 'https://build:7443',
      place: { kind: 'tcp', isTls: true, host: 'build', port: 7443 },
      token: 'sesame',
      ca: null,
    });
    for (const variables of [
      { VOIDBOX_SERVER: 'https://me:sesame@build' },
      { VOIDBOX_SERVER: 'http://build' },
      { VOIDBOX_SERVER, VOIDBOX_TOKEN: 'sesame open' },
      { VOIDBOX_SERVER, VOIDBOX_TOKEN: 'sesame'.repeat(200) },
      { VOIDBOX_SERVER, VOIDBOX_SERVER_CA: '/none' },
      { VOIDBOX_SERVER, VOIDBOX_SERVER_CA: '/etc/hostname' },
      { VOIDBOX_SERVER, TEMPORAL_ADDRESS: 'sesame:7233' },
    ]) {
      expect(() => readEnvironment(variables)).toThrow(SetupError);
      expect(() => readEnvironment(variables)).not.toThrow(/sesame/);
    }
  });

  test('VMs start from snapshots in the cache by default', () => {
    const HOME = '/home/me';
    const dir = '/home/me/.cache/voidbox/snapshots';
    expect(readEnvironment({ HOME }).snapshots).toEqual({ dir, maxMib: 2_048 });
    expect(readEnvironment({ HOME, VOIDBOX_SNAPSHOTS_MAX_MB: '128' }).snapshots).toEqual({ dir, maxMib: 128 });
    expect(readEnvironment({ HOME, VOIDBOX_SNAPSHOTS: 'off' }).snapshots).toBeNull();
  });

  test('VMs wait only if a variable names their shapes', () => {
    const HOME = '/home/me';
    expect(readEnvironment({ HOME }).warm).toEqual([]);
    expect(readEnvironment({ HOME, VOIDBOX_WARM: 'off' }).warm).toEqual([]);
    const shapes = readEnvironment({ HOME, VOIDBOX_WARM: 'base:512x1=1,dev+codex:1024x2=3' }).warm;
    expect(shapes.map(({ shape, count }) => [shape.image, shape.layers, count])).toEqual([
      ['base', [], 1],
      ['dev', ['codex'], 3],
    ]);
  });

  test('all prepared sandboxes use at most 10 GiB by default', () => {
    const HOME = '/home/me';
    expect(readEnvironment({ HOME }).preparedMaxMib).toBe(10_240);
    expect(readEnvironment({ HOME, VOIDBOX_PREPARED_MAX_MB: '1' }).preparedMaxMib).toBe(1);
  });

  test('runs survive the same failures as the embedded server by default', () => {
    const unset = readEnvironment({ HOME: '/home/me' });
    expect(durabilityOf(unset, 'embedded')).toBe('process');
    expect(durabilityOf(unset, 'own')).toBe('power');
    expect(durabilityOf(readEnvironment({ HOME: '/home/me', VOIDBOX_DURABILITY: 'power' }), 'embedded')).toBe('power');
    expect(durabilityOf(readEnvironment({ HOME: '/home/me', VOIDBOX_DURABILITY: 'process' }), 'own')).toBe('process');
  });
});

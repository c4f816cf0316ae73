/** The one place that reads the environment. Everything else is handed what it needs. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

export interface Environment {
  /** Pieces that set-up makes or fetches, one folder each, keyed by a hash of their inputs. */
  readonly cacheDir: string;
  /** Runs, artifacts, VMs, the embedded stack. */
  readonly stateDir: string;
  /** Explicit paths to pieces, by piece name: `VOIDBOX_TEMPORAL_CLI`, `VOIDBOX_QEMU`, `VOIDBOX_BWRAP`, `VOIDBOX_VM`, `VOIDBOX_KERNEL`, `VOIDBOX_INITRAMFS`. */
  readonly piecePaths: Readonly<Record<string, string>>;
  /** True when `TEMPORAL_ADDRESS` or a profile names a server of one's own. */
  readonly temporalConfigured: boolean;
  /** `VOIDBOX_KERNEL_KIND=debian|voidbox` forces which kernel runs get; unset prefers ours when it is built. */
  readonly kernelKind: 'debian' | 'voidbox' | null;
  /** `VOIDBOX_BOOT_TIMEOUT_MS`: how long one boot may take until the guest's hello; null is the backend's own limit. For slow machines. */
  readonly bootTimeoutMs: number | null;
  readonly path: string;
  readonly noColor: boolean;
  readonly isCi: boolean;
  /** All variables, for child processes and for the variables that a spec names. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

const PIECE_VARIABLES: Readonly<Record<string, string>> = {
  'temporal-cli': 'VOIDBOX_TEMPORAL_CLI',
  qemu: 'VOIDBOX_QEMU',
  bwrap: 'VOIDBOX_BWRAP',
  keeper: 'VOIDBOX_VM',
  kernel: 'VOIDBOX_KERNEL',
  initramfs: 'VOIDBOX_INITRAMFS',
};

export function readEnvironment(variables: Readonly<Record<string, string | undefined>> = process.env): Environment {
  const home = variables['HOME'] ?? homedir();
  const kernelKind = variables['VOIDBOX_KERNEL_KIND'];
  const piecePaths: Record<string, string> = {};
  for (const [piece, name] of Object.entries(PIECE_VARIABLES)) {
    const value = variables[name];
    if (value !== undefined && value !== '') piecePaths[piece] = resolve(value);
  }
  return {
    cacheDir: resolve(variables['VOIDBOX_CACHE_DIR'] ?? join(variables['XDG_CACHE_HOME'] ?? join(home, '.cache'), 'voidbox')),
    stateDir: resolve(variables['VOIDBOX_STATE_DIR'] ?? join(variables['XDG_STATE_HOME'] ?? join(home, '.local', 'state'), 'voidbox')),
    piecePaths,
    temporalConfigured:
      variables['TEMPORAL_ADDRESS'] !== undefined || variables['TEMPORAL_PROFILE'] !== undefined || variables['TEMPORAL_CONFIG_FILE'] !== undefined,
    kernelKind: kernelKind === 'debian' || kernelKind === 'voidbox' ? kernelKind : null,
    bootTimeoutMs: positiveInteger(variables['VOIDBOX_BOOT_TIMEOUT_MS']),
    path: variables['PATH'] ?? '/usr/bin:/bin',
    noColor: (variables['NO_COLOR'] ?? '') !== '' || variables['TERM'] === 'dumb',
    isCi: variables['CI'] === 'true',
    variables,
  };
}

function positiveInteger(text: string | undefined): number | null {
  const value = Number(text);
  return text !== undefined && Number.isSafeInteger(value) && value > 0 ? value : null;
}

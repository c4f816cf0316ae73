/** The VM of a stage, or of all stages. */
import type { IsolationLevel, MountMode, SandboxMode } from '../../domain/plan/plan.ts';
import { secondsOf } from '../options.ts';
import type { SpecObject } from './stage.ts';
import type { Env } from './values.ts';

export interface SandboxOptions {
  /** `mock` runs nothing for real and must be asked for. */
  readonly mode?: SandboxMode;
  /** The weakest isolation that is accepted. Default: `microvm`. */
  readonly isolation?: IsolationLevel;
  /** 128 to 65536. Default: 512. */
  readonly memoryMib?: number;
  readonly vcpus?: number;
  /** Size of `/workspace`, `/tmp` and home together. */
  readonly diskMib?: number;
  readonly env?: Env;
  readonly mounts?: readonly Mount[];
  /** `true` is `egress: 'open'`. */
  readonly network?: boolean;
  /** The hosts that the VM reaches. Default: the hosts that its agents need, or none. */
  readonly egress?: Egress;
  /** By the name in the guest: `host:port`, of the host's network or its loopback. */
  readonly services?: Readonly<Record<string, string>>;
  /** `on-failure`: the VM of a stage that fails is left for a look. Default: `never`. */
  readonly keep?: 'never' | 'on-failure';
  /** How long it is left: an hour at most. Default: 15 minutes. */
  readonly keepMs?: number;
  /**
   * The VM starts with the disk of this prepared sandbox: its name, or the beginning of its id. `none`: the VM boots, and
   * no snapshot is made of it.
   */
  readonly snapshot?: string;
  /** Voidbox checks this key and the following ones, but `run` refuses them, because no backend supports them yet. */
  readonly image?: string;
  readonly guestImage?: string;
  readonly kernel?: string;
  readonly initramfs?: string;
}

/** Hosts (`example.com`, `*.example.com`), networks, each with `:port`, and presets such as `npm` and `provider`. */
export type Egress =
  | 'none'
  | 'open'
  | { readonly allow?: readonly string[]; /** Wins over `allow`. */ readonly deny?: readonly string[] };

export interface Mount {
  /** Relative paths start from `baseDir` of `compile`. */
  readonly host: string;
  readonly guest: string;
  /** Default: `ro`. `rw` is copied in before a stage and back after its success. */
  readonly mode?: MountMode;
  /** `writable`: `rw` copies `.git` and bare repositories back, too. The next git command of the host can then run programs of the guest. */
  readonly git?: 'protected' | 'writable';
}

export function writeSandbox(sandbox: SandboxOptions | undefined): SpecObject | undefined {
  if (sandbox === undefined) return undefined;
  const { memoryMib, diskMib, guestImage, keepMs, ...same } = sandbox;
  return {
    ...same,
    memory_mb: memoryMib,
    disk_mb: diskMib,
    keep_secs: secondsOf(keepMs),
    guest_image: guestImage,
  };
}

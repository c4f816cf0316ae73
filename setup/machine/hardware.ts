/** The kind of the host's /dev/kvm, and the isolation that runs get from it. */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import type { SetupContext } from '../pieces/piece.ts';
import { runProgram } from '../pieces/run-program.ts';

export type KvmKind = 'hardware' | 'emulated' | 'none' | 'no-permission';

export interface KvmReport {
  readonly kind: KvmKind;
  readonly explanation: string;
  /** The way to better isolation or speed, or null. */
  readonly remedy: string | null;
}

const KINDS: readonly string[] = ['hardware', 'emulated', 'none', 'no-permission'] satisfies KvmKind[];

/** Uses the keeper's measurement if the keeper is built; otherwise the kernel's own description. */
export async function inspectKvm(context: SetupContext, keeper: string | null): Promise<KvmReport> {
  return describeKvm((await measureKind(context, keeper)) ?? readDeclaredKind());
}

async function measureKind(context: SetupContext, keeper: string | null): Promise<KvmKind | null> {
  const kind = (await readFacts(context, keeper))['kvm'];
  return typeof kind === 'string' && KINDS.includes(kind) ? (kind as KvmKind) : null;
}

/** The reasons why control groups do not limit VMs; null for a limit that VMs have. */
export interface UnlimitedReport {
  readonly cpu: string | null;
  readonly memory: string | null;
}

/** Null: the keeper is not built, or its answer is not readable. */
export async function inspectLimits(context: SetupContext, keeper: string | null): Promise<UnlimitedReport | null> {
  const { cpu, memory } = ((await readFacts(context, keeper))['unlimited'] ?? {}) as Record<string, unknown>;
  const isReason = (value: unknown): value is string | null => value === null || typeof value === 'string';
  return isReason(cpu) && isReason(memory) ? { cpu, memory } : null;
}

async function readFacts(context: SetupContext, keeper: string | null): Promise<Readonly<Record<string, unknown>>> {
  if (keeper === null) return {};
  const result = await runProgram(context.env, keeper, ['host'], { timeoutMs: 10_000 });
  try {
    return (JSON.parse(result.stdout) ?? {}) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Whether the kernel describes hardware KVM that this process may use; the keeper's measurement may still find an emulation. */
export function isHardwareKvmDeclared(): boolean {
  return readDeclaredKind() === 'hardware';
}

function readDeclaredKind(): KvmKind {
  if (!existsSync('/dev/kvm')) return 'none';
  try {
    accessSync('/dev/kvm', constants.R_OK | constants.W_OK);
  } catch {
    return 'no-permission';
  }
  const flags = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(' ') ?? [];
  return flags.includes('vmx') || flags.includes('svm') ? 'hardware' : 'emulated';
}

/** A uid without an entry in the list of users, as in containers, has no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}

function describeKvm(kind: KvmKind): KvmReport {
  switch (kind) {
    case 'hardware':
      return { kind, explanation: '/dev/kvm is backed by the CPU and may be used', remedy: null };
    case 'no-permission':
      return {
        kind,
        explanation: `/dev/kvm exists, but ${userName()} may not use it`,
        remedy: 'sudo usermod -aG kvm $USER   (then log in again)',
      };
    case 'emulated':
      return {
        kind,
        explanation: "/dev/kvm exists, but the CPU's virtualization is not behind it; it is not used",
        remedy: 'Use a host, or a VM with nested virtualization, whose CPU shows vmx or svm.',
      };
    case 'none':
      return {
        kind,
        explanation: '/dev/kvm does not exist',
        remedy:
          "Turn on virtualization in the firmware (or nested virtualization in this VM's host) and load kvm_intel or kvm_amd.",
      };
  }
}

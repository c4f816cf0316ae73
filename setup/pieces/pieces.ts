/** Every piece that a machine needs to run micro-VMs and the embedded stack. */
import { existsSync } from 'node:fs';
import { agentCliPiece, CLAUDE, CODEX } from './agent-clis.ts';
import { findDebianKernelBlocker, findDebianKernel, getDebianKernel } from './debian-kernel.ts';
import { devDisk } from '../dev-disk/dev-disk.ts';
import { inspectKvm } from '../machine/hardware.ts';
import { makeInitramfs } from './guest-image.ts';
import type { FoundPiece, OptionalPieceName, Piece, PieceName, SetupContext } from './piece.ts';
import { POSTGRES, definePostgresPiece } from './postgres.ts';
import { bwrap, busybox, mke2fs, qemu } from './programs.ts';
import {
  AGENT_BINARY,
  binariesFolder,
  findBinary,
  getBinary,
  KEEPER_BINARY,
  VMM_BINARY,
  BINDING_FILE,
  describeBindingFolder,
  describeVmmFolder,
} from './rust-binaries.ts';
import { findRustBlocker, MINIMUM_RUST_OF_BINDING } from './rust-toolchain.ts';
import { SetupError } from '../setup-error.ts';
import { findTemporalCli, getTemporalCli, temporalCliFolder } from './temporal-cli.ts';
import { findVoidboxKernel } from './voidbox-kernel.ts';

const temporalCli: Piece = {
  name: 'temporal-cli',
  purpose: 'the Temporal server of the embedded stack',
  variable: 'VOIDBOX_TEMPORAL_CLI',
  packages: null,
  isLocal: false,
  needs: [],
  roomMib: 400,
  folder: temporalCliFolder,
  blocker: null,
  find: findTemporalCli,
  get: getTemporalCli,
};

const keeper: Piece = {
  name: 'keeper',
  purpose: 'one process per VM that starts it and speaks to it',
  variable: 'VOIDBOX_VM',
  packages: null,
  isLocal: false,
  needs: [],
  roomMib: 300,
  folder: binariesFolder,
  blocker: (context) => findRustBlocker(context),
  find: async (context) => explicitFile(context, 'keeper', 'VOIDBOX_VM') ?? (await findBinary(context, KEEPER_BINARY)),
  get: (context) => getBinary(context, KEEPER_BINARY),
};

const agent: Piece = {
  name: 'agent',
  purpose: "the guest's first process",
  variable: null,
  packages: null,
  isLocal: false,
  needs: [],
  // One build makes both.
  roomMib: keeper.roomMib,
  folder: binariesFolder,
  blocker: (context) => findRustBlocker(context),
  find: (context) => findBinary(context, AGENT_BINARY),
  get: (context) => getBinary(context, AGENT_BINARY),
};

const vmm: Piece = {
  name: 'vmm',
  purpose: 'the VMM of VMs with `mode: vmm`, and of `mode: auto` on hardware KVM',
  variable: null,
  packages: null,
  isLocal: false,
  needs: [],
  roomMib: 300,
  folder: describeVmmFolder,
  blocker: async (context) => (await findKvmBlocker(context)) ?? (await findRustBlocker(context)),
  find: (context) => findBinary(context, VMM_BINARY),
  get: (context) => getBinary(context, VMM_BINARY),
};

const binding: Piece = {
  name: 'binding',
  purpose: 'a module for Node that asks and starts keepers sooner',
  variable: null,
  packages: null,
  isLocal: false,
  needs: [],
  roomMib: 200,
  folder: describeBindingFolder,
  blocker: (context) => findRustBlocker(context, MINIMUM_RUST_OF_BINDING),
  find: (context) => findBinary(context, BINDING_FILE),
  get: (context) => getBinary(context, BINDING_FILE),
};

/** A host without hardware KVM cannot run it, so it is not compiled there. */
async function findKvmBlocker(context: SetupContext): Promise<SetupError | null> {
  const found = await keeper.find(context);
  const { kind, explanation, remedy } = await inspectKvm(context, found?.path ?? null);
  if (kind === 'hardware') return null;
  const ways = ['Use mode: qemu or auto.', ...(remedy === null ? [] : [remedy])];
  return new SetupError(`mode: vmm needs hardware KVM: ${explanation}.`, ways.join('\n'));
}

const kernel: Piece = {
  name: 'kernel',
  purpose: "the guest's kernel",
  variable: 'VOIDBOX_KERNEL',
  packages: null,
  isLocal: false,
  needs: ['busybox'],
  roomMib: 600,
  blocker: (context) =>
    Promise.resolve(context.kernelKind === 'debian' ? findDebianKernelBlocker(context) : voidboxKernelMissing()),
  find: async (context) =>
    explicitFile(context, 'kernel', 'VOIDBOX_KERNEL') ??
    (await (context.kernelKind === 'voidbox' ? findVoidboxKernel(context) : findDebianKernel(context))),
  get: (context) => {
    if (context.kernelKind === 'debian') return getDebianKernel(context);
    throw voidboxKernelMissing();
  },
};

function voidboxKernelMissing(): SetupError {
  return new SetupError("Voidbox's own guest kernel is selected but not built.", 'npm run kernel');
}

const initramfs: Piece = {
  name: 'initramfs',
  purpose: "the guest's first root: agent, shell, tools",
  variable: 'VOIDBOX_INITRAMFS',
  packages: null,
  isLocal: true,
  needs: ['agent', 'busybox', 'kernel'],
  roomMib: 20,
  blocker: null,
  find: (context) => Promise.resolve(explicitFile(context, 'initramfs', 'VOIDBOX_INITRAMFS')),
  get: makeInitramfs,
};

const NEEDED_PIECES: readonly Piece[] = [temporalCli, qemu, bwrap, mke2fs, keeper, kernel, initramfs, agent, busybox];

/** The optional pieces by name, for `--with`. */
const OPTIONAL_PIECES: Readonly<Record<OptionalPieceName, Piece>> = {
  binding,
  claude: agentCliPiece(CLAUDE),
  codex: agentCliPiece(CODEX),
  dev: devDisk,
  postgres: definePostgresPiece(POSTGRES),
  vmm,
};

export const OPTIONAL_PIECE_NAMES = Object.keys(OPTIONAL_PIECES) as readonly OptionalPieceName[];

/** All pieces in the order of doctor's output. */
export const PIECES: readonly Piece[] = [...NEEDED_PIECES, ...Object.values(OPTIONAL_PIECES)];

export function isOptionalPiece(name: string): name is OptionalPieceName {
  return Object.hasOwn(OPTIONAL_PIECES, name);
}
/** The pieces that runs need; `agent` and `busybox` are needed only for the initramfs. */
export const RUN_PIECES: readonly PieceName[] = [
  'temporal-cli',
  'qemu',
  'bwrap',
  'mke2fs',
  'keeper',
  'kernel',
  'initramfs',
];

/** The pieces that VMs need. */
export const VM_PIECES: readonly PieceName[] = RUN_PIECES.filter((name) => name !== 'temporal-cli');

/** The pieces that the embedded stack needs even without VMs. */
export const STACK_PIECES: readonly PieceName[] = ['temporal-cli', 'keeper'];

export function findPiece(name: PieceName): Piece {
  const piece = PIECES.find((candidate) => candidate.name === name);
  if (piece === undefined) throw new Error(`no piece is named ${name}`);
  return piece;
}

function explicitFile(context: SetupContext, piece: PieceName, variable: string): FoundPiece | null {
  const path = context.env.piecePaths[piece];
  if (path === undefined) return null;
  if (!existsSync(path))
    throw new SetupError(`${variable} names ${path}, which does not exist.`, `Fix or unset ${variable}.`);
  return { path, version: 'as given', from: variable };
}

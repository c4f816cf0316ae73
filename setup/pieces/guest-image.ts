/** Makes the guest's initramfs from the agent, the mock agent, busybox and the kernel's modules. */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { buildInitramfs, formatModuleLine, INITRAMFS_FORMAT } from '../../guest/image/initramfs.ts';
import { ensureCacheFolder, hashInputs } from '../cache/cache.ts';
import { readKernelModules } from './debian-kernel.ts';
import type { FoundPiece, SetupContext } from './piece.ts';
import { runProgram } from './run-program.ts';
import { MOCK_AGENT_BINARY } from './rust-binaries.ts';
import { SetupError } from '../setup-error.ts';

export async function makeInitramfs(context: SetupContext): Promise<FoundPiece> {
  const [agentPiece, busyboxPiece, kernel] = await Promise.all([
    context.need('agent'),
    context.need('busybox'),
    context.need('kernel'),
  ]);
  const modules = context.kernelKind === 'debian' ? readKernelModules(dirname(kernel.path)) : [];
  if (context.kernelKind === 'debian' && modules.length === 0) {
    throw new SetupError(
      `${kernel.path} is a Debian kernel without its modules beside it.`,
      'Name an image for it with VOIDBOX_INITRAMFS too, or unset VOIDBOX_KERNEL.',
    );
  }
  const agent = readFileSync(agentPiece.path);
  const mockAgent = readFileSync(join(dirname(agentPiece.path), MOCK_AGENT_BINARY));
  const busybox = readFileSync(busyboxPiece.path);
  const hash = hashInputs([
    String(INITRAMFS_FORMAT),
    agent,
    mockAgent,
    busybox,
    ...modules.flatMap((module) => [formatModuleLine(module), module.content]),
  ]);
  const piece = `initramfs-${context.kernelKind}`;
  const make = async (into: string): Promise<void> => {
    context.progress('building the guest image');
    const applets = (await runProgram(context.env, busyboxPiece.path, ['--list-full'])).stdout
      .split('\n')
      .filter((line) => line !== '');
    if (applets.length === 0)
      throw new SetupError(
        `${busyboxPiece.path} --list-full names no applets.`,
        'Use the busybox of a distribution, which lists its applets.',
      );
    await writeFile(join(into, 'initramfs.cpio.gz'), buildInitramfs({ agent, mockAgent, busybox, applets, modules }));
  };
  const folder = await ensureCacheFolder({ cacheDir: context.env.cacheDir, piece, hash }, make, () =>
    context.progress('waiting for another set-up to build the guest image'),
  );
  return { path: join(folder, 'initramfs.cpio.gz'), version: hash, from: 'cache' };
}

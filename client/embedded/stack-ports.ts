/** `stack-ports.json`: the ports that the last stack of the folder had, so that the next one has them too. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from './replace-file.ts';
import type { StackInfo } from './stack-info.ts';

export interface StackPorts {
  readonly grpc: number;
  readonly ui: number;
}

export function stackPortsFile(stateDir: string): string {
  return join(stateDir, 'stack-ports.json');
}

/** Reads the ports; null if no stack has run yet, or if the file is malformed. */
export function readStackPorts(stateDir: string): StackPorts | null {
  try {
    const ports = JSON.parse(readFileSync(stackPortsFile(stateDir), 'utf8')) as { grpc?: unknown; ui?: unknown } | null;
    const { grpc, ui } = ports ?? {};
    return isPort(grpc) && isPort(ui) && grpc !== ui ? { grpc, ui } : null;
  } catch {
    return null;
  }
}

export function keepStackPorts(stateDir: string, ports: StackPorts): void {
  const before = readStackPorts(stateDir);
  if (before?.grpc === ports.grpc && before.ui === ports.ui) return;
  replaceFile(stackPortsFile(stateDir), `${JSON.stringify({ grpc: ports.grpc, ui: ports.ui })}\n`);
}

/** Describes a stack that has other ports than the one before it; null if the ports are the same. */
export function describeMove(before: StackPorts | null, { address, uiUrl }: StackInfo): string | null {
  if (before === null) return null;
  const moves = [
    { what: 'gRPC', from: before.grpc, to: address },
    { what: 'UI', from: before.ui, to: uiUrl },
  ].filter(({ from, to }) => !to.endsWith(`:${from}`));
  if (moves.length === 0) return null;
  const told = moves.map(({ what, from, to }) => `${what} port ${from} is taken by another program, now ${to}`);
  return `the embedded stack has other ports than before: ${told.join('; ')}`;
}

/** Below 1024 a port is not a user's. */
function isPort(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1024 && Number(value) <= 65_535;
}

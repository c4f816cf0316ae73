/** Reads a VM's status from its keeper. It uses no fence, so the client that drives the VM keeps its fence. */
import { readVmStatus, type VmStatus } from './api.ts';
import { connectKeeper, ControlConnection } from './connection.ts';

/** @throws ConnectionError if no keeper answers, or the signal's reason */
export async function askVmStatus(dir: string, signal: AbortSignal): Promise<VmStatus> {
  const connection = new ControlConnection(await connectKeeper(dir, signal));
  try {
    return readVmStatus(await connection.request('status', {}, signal));
  } finally {
    connection.close(new Error('the state is known'));
  }
}

/**
 * What this host alone knows of a run: what is prepared in which of its VMs, which folder of its disk the spec lies in. They
 * live as long as the run's records, and never reach another host.
 */

export interface HostMarks {
  put(runId: string, name: string, value: unknown): Promise<void>;
  /** Null for a mark that does not exist. */
  get(runId: string, name: string): Promise<unknown>;
  /** Of a running VM: survives the death of any process, and not a power cut, which ends the VM too. */
  putOfVm(runId: string, name: string, value: unknown): Promise<void>;
  /** Null also for what a power cut left of one. */
  getOfVm(runId: string, name: string): Promise<unknown>;
}

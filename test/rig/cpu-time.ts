/** The time that a computation takes, independent of other processes on the machine. */

/** Returns the CPU time of this process during `work`, in milliseconds. Wall time would also count other processes. */
export async function cpuMsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

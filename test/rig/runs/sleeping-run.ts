/** A run that sleeps, in a mock: for tests that need a run and not what it does. */
export const napSpec = (seconds: number): string => `
api_version: v1
kind: workflow
name: nap
sandbox: { mode: mock, isolation: none }
workflow:
  steps: [{ name: nap, run: { program: sleep, args: ["${seconds}"] } }]
`;

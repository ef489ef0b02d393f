// take leads a client through the steps of a plan and prints, for each that it
// takes, one line of JSON: the step, whether it went well, and if not, why.
//
// A client has connect(), list() with the names of the tools, call(tool, arguments),
// cancel(tool, arguments), which cancels once the tool runs, and, as its number
// of questions answered, questions. close() ends it.
export async function take(plan, client) {
  const steps = {
    connect: () => client.connect(),
    list: async () => contains(await client.list(), plan.call.tool),
    call: () => called(client, plan.call),
    slow: () => called(client, plan.slow),
    question: async () => {
      await called(client, plan.question);
      if (client.questions !== 1) throw new Error(`${client.questions} questions`);
    },
    cancel: () => client.cancel(plan.cancel.tool, plan.cancel.arguments),
  };
  for (const [step, run] of Object.entries(steps)) {
    if (step in plan || step === 'connect' || step === 'list') await report(step, run);
  }
  await client.close();
  process.exit(0);
}

async function report(step, run) {
  let reason;
  try {
    await run();
  } catch (e) {
    reason = String(e);
  }
  console.log(JSON.stringify({ step, ok: reason === undefined, reason }));
}

async function called(client, { tool, arguments: args, want }) {
  contains(JSON.stringify(await client.call(tool, args)), want);
}

function contains(all, part) {
  if (!all.includes(part)) throw new Error(`${part} is not in ${all}`);
}

"""The speed of the same training on other GPUs: predicted, with its evidence, and decided on.

    prediction = predict(measured, targets, knowledge)
    advice = decide(prediction, costs)

`measured` starts with the present run; `knowledge` is what the workspace's other jobs tell. Each
speed is a ratio to the present run, with an 80 % interval and the rung of its evidence.
"""
